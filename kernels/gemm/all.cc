#include "kernels/gemm/register.h"

namespace isthmus {

void registerGemmKernels(KernelTable &table) {
  registerGemmMatmul(table);
  registerGemmConv(table);
}

} // namespace isthmus
