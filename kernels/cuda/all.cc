#include "kernels/cuda/register.h"

namespace isthmus::cuda {

void registerGridKernels(KernelTable &table) {
  registerElementwise(table);
  registerActivation(table);
  registerMath(table);
  registerBits(table);
  registerRandom(table);
  registerOptimizer(table);
  registerShape(table);
  registerIndexing(table);
  registerOrder(table);
  registerInterpolate(table);
  registerScan(table);
  registerLoss(table);
  registerRowNorm(table);
  registerNorm(table);
  registerLinalg(table);
  registerMatmul(table);
  registerConv(table);
  registerPool(table);
  registerLrn(table);
  registerReduce(table);
  registerSoftmax(table);
}

} // namespace isthmus::cuda
