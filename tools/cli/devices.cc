#include "tools/cli/devices.h"

#include "kernels/cpu.h"
#include "runtime/cpu_device.h"

namespace isthmus {

llvm::Expected<std::unique_ptr<Device>> openDevice(llvm::StringRef name, int threads) {
  if (name == "cpu" || name == "cpu:0")
    return makeCpuDevice(cpuKernels(), threads);
  if (name == "counting")
    return makeCountingDevice(cpuKernels(), threads);
  if (name == "cuda" || name.startswith("cuda:"))
    return makeErrorCode(
        5, "device '{0}' is not available: this build has no CUDA device; use --device=cpu", name);
  return makeErrorCode(2, "--device expects cpu, cuda, cuda:N or counting, got '{0}'{1}", name,
                       didYouMean(name, {"cpu", "cuda", "counting"}));
}

} // namespace isthmus
