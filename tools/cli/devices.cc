#include "tools/cli/devices.h"

#include "ir/measured_costs.h"
#include "kernels/cpu.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "tools/cli/budget.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"

namespace isthmus {

namespace {

llvm::Expected<std::unique_ptr<Device>> cudaDevice(llvm::StringRef name, const CudaOptions &o) {
  auto device = makeCudaDevice(o);
  if (device)
    return device;
  return addNote(makeError(ErrorKind::Device, "device '{0}' is not available: {1}", name,
                           plainMessage(device.takeError())),
                 "--device=cpu runs the same graph");
}

llvm::Expected<std::unique_ptr<Device>> open(llvm::StringRef name, const DeviceOptions &options,
                                             std::shared_ptr<const MeasuredCosts> costs) {
  const CpuOptions cpu{options.threads, options.linkBytesPerSecond, costs};
  if (name == "cpu" || name == "cpu:0")
    return makeCpuDevice(cpuKernels(), cpu);
  if (name == "counting")
    return makeCountingDevice(cpuKernels(), cpu);
  CudaOptions cuda{.tf32 = options.tf32, .costs = costs};
  if (name.startswith("cuda") && options.linkBytesPerSecond > 0)
    return usageError("--link is for cpu and counting; cuda has a link of its own");
  if (name == "cuda" || (name.startswith("cuda:") && !name.substr(5).getAsInteger(10, cuda.index)))
    return cudaDevice(name, cuda);
  return usageError("--device expects cpu, cuda, cuda:N or counting, got '{0}'{1}", name,
                    didYouMean(name, {"cpu", "cuda", "counting"}));
}

} // namespace

DeviceOptions deviceOptions(const ModelOptions &o, const PlanFlags &plan) {
  DeviceOptions d{o.threads, o.precision == kTf32};
  d.costs = plan.costs;
  d.linkBytesPerSecond = plan.link.value_or(0);
  return d;
}

llvm::Expected<std::unique_ptr<Device>> openDevice(llvm::StringRef name,
                                                   const DeviceOptions &options) {
  std::shared_ptr<const MeasuredCosts> costs;
  if (!options.costs.empty())
    if (llvm::Error e = readCosts(options.costs).moveInto(costs))
      return e;
  auto device = open(name, options, costs);
  if (device && costs && costs->target != (*device)->target().name)
    Console::get().note(llvm::formatv("'{0}' was measured on '{1}', and this is '{2}'",
                                      options.costs, costs->target, (*device)->target().name)
                            .str());
  return device;
}

} // namespace isthmus
