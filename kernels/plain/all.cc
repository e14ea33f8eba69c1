#include "kernels/plain/register.h"

namespace isthmus {

void registerPlainKernels(KernelTable &table) {
  registerPlainElementwise(table);
  registerPlainActivation(table);
  registerPlainMath(table);
  registerPlainBits(table);
  registerPlainScan(table);
  registerPlainIndexing(table);
  registerPlainOrder(table);
  registerPlainLinalg(table);
  registerPlainShape(table);
  registerPlainReduce(table);
  registerPlainMatmul(table);
  registerPlainConv(table);
  registerPlainPool(table);
  registerPlainInterpolate(table);
  registerPlainNorm(table);
  registerPlainSoftmax(table);
  registerPlainAttention(table);
  registerPlainLoss(table);
  registerPlainRandom(table);
  registerPlainOptimizer(table);
}

const KernelTable &plainKernels() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerPlainKernels(*t);
    return t;
  }();
  return *table;
}

} // namespace isthmus
