#include "kernels/gemm/register.h"

namespace isthmus {

void registerGemmKernels(KernelTable &table) {
  registerGemmAttention(table);
  registerGemmMatmul(table);
  registerGemmConv(table);
}

} // namespace isthmus
