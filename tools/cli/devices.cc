#include "tools/cli/devices.h"

#include "kernels/gemm/register.h"
#include "kernels/onednn/register.h"
#include "kernels/plain/register.h"
#include "runtime/cpu_device.h"

namespace isthmus {

const KernelTable &allKernels() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerGemmKernels(*t); // tried in this order
    registerOneDnnKernels(*t);
    registerPlainKernels(*t);
    return t;
  }();
  return *table;
}

llvm::Expected<std::unique_ptr<Device>> openDevice(llvm::StringRef name, int threads) {
  if (name == "cpu" || name == "cpu:0")
    return makeCpuDevice(allKernels(), threads);
  if (name == "counting")
    return makeCountingDevice(allKernels(), threads);
  if (name == "cuda" || name.startswith("cuda:"))
    return makeErrorCode(
        5, "device '{0}' is not available: this build has no CUDA device; use --device=cpu", name);
  return makeErrorCode(2, "--device expects cpu, cuda, cuda:N or counting, got '{0}'{1}", name,
                       didYouMean(name, {"cpu", "cuda", "counting"}));
}

} // namespace isthmus
