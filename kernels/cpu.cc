#include "kernels/cpu.h"

#include "kernels/gemm/register.h"
#include "kernels/onednn/register.h"
#include "kernels/plain/register.h"

namespace isthmus {

const KernelTable &cpuKernels() {
  static const KernelTable *const table = [] {
    auto *t = new KernelTable;
    registerGemmKernels(*t);
    registerOneDnnKernels(*t);
    registerUnfoldedConv(*t);
    registerPlainKernels(*t);
    return t;
  }();
  return *table;
}

} // namespace isthmus
