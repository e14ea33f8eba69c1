#include "kernels/plain/register.h"

namespace isthmus {

void registerPlainKernels(KernelTable &table) {
  registerPlainElementwise(table);
  registerPlainShape(table);
  registerPlainReduce(table);
  registerPlainMatmul(table);
  registerPlainRandom(table);
}

} // namespace isthmus
