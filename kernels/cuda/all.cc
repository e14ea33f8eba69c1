#include "kernels/cuda/register.h"

namespace isthmus::cuda {

void registerGridKernels(KernelTable &table) { registerElementwise(table); }

} // namespace isthmus::cuda
