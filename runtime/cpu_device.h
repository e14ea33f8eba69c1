// The CPU: kernels run at once on the calling thread and an OpenMP team of the size asked for.
#pragma once

#include "runtime/device.h"

namespace isthmus {

struct CpuOptions {
  int threads = 0; // 0: one for each core that this process may use
  // Its "host" is its own memory, and a copy there takes no longer than memory does. With a rate
  // copies take as long as over such a link, each way, and so plans for one can be tried.
  double linkBytesPerSecond = 0;
  std::shared_ptr<const MeasuredCosts> costs; // null: its target's are estimated
};

// `kernels` must outlive the device.
std::unique_ptr<Device> makeCpuDevice(const KernelTable &kernels, const CpuOptions &options = {});

// Keeps the books of the CPU device without computing: sizes, workspaces and peaks are the CPU's,
// at any model size.
std::unique_ptr<Device> makeCountingDevice(const KernelTable &kernels,
                                           const CpuOptions &options = {});

} // namespace isthmus
