#include "kernels/onednn/register.h"

namespace isthmus {

void registerOneDnnKernels(KernelTable &table) { registerOneDnnConv(table); }

} // namespace isthmus
