#include "tools/cli/devices.h"

#include "ir/measured_costs.h"
#include "kernels/cpu.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "tools/cli/budget.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "tools/cli/processes.h"

namespace isthmus {

namespace {

// The processes that mpirun started on one host take its GPUs in turn.
llvm::Expected<std::unique_ptr<Device>> openCuda(llvm::StringRef name, CudaOptions o) {
  if (const ProcessGroup *group = processGroup(); group && name == "cuda") {
    auto count = countCudaDevices();
    if (!count)
      return count.takeError();
    o.index = *count > 0 ? int(group->rankOnHost()) % *count : 0;
  }
  return makeCudaDevice(o);
}

llvm::Expected<std::unique_ptr<Device>> cudaDevice(llvm::StringRef name, const CudaOptions &o) {
  auto device = openCuda(name, o);
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
  CudaOptions cuda{.index = options.firstGpu, .tf32 = options.tf32, .costs = costs};
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
  if (!plan.stages.machine.devices().empty()) {
    llvm::StringRef first = plan.stages.machine.devices().front().name;
    if (first.consume_front("cuda:"))
      (void)first.getAsInteger(10, d.firstGpu);
  }
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
