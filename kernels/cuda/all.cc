#include "kernels/cuda/register.h"

namespace isthmus::cuda {

void registerGridKernels(KernelTable &table) {
  registerActivation(table);
  registerAttention(table);
  registerBits(table);
  registerConv(table);
  registerElementwise(table);
  registerIndexing(table);
  registerInterpolate(table);
  registerLinalg(table);
  registerLoss(table);
  registerLrn(table);
  registerMath(table);
  registerMatmul(table);
  registerNorm(table);
  registerOptimizer(table);
  registerOrder(table);
  registerPool(table);
  registerRandom(table);
  registerReduce(table);
  registerRowNorm(table);
  registerScan(table);
  registerShape(table);
  registerSoftmax(table);
}

} // namespace isthmus::cuda
