// Opens devices by the name that --device takes.
#pragma once

#include "runtime/device.h"
#include "tools/cli/options.h"

namespace isthmus {

struct DeviceOptions {
  int threads = 0;   // of a CPU; 0: one for each core
  bool tf32 = false; // products of f32 may round their operands to tf32, if the device can
  double linkBytesPerSecond = 0; // to host memory, each way; 0: the device's own rate
  std::string costs;             // a file of measured costs; empty: estimates
  int firstGpu = 0;              // which one "cuda" is: the first of --devices
};
// The flags must have been checked.
DeviceOptions deviceOptions(const ModelOptions &o, const PlanFlags &plan = {});

// "cpu", "cpu:0", "counting", "cuda" or "cuda:N". Errors: cuda is not available, with the reason
// (exit 5); an unknown name (exit 2); a malformed file of costs.
llvm::Expected<std::unique_ptr<Device>> openDevice(llvm::StringRef name,
                                                   const DeviceOptions &options = {});

} // namespace isthmus
