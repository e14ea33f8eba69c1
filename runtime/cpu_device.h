// The CPU device: kernels run synchronously on the calling thread and an OpenMP team of the given
// size.
#pragma once

#include "runtime/device.h"

namespace isthmus {

struct CpuOptions {
  int threads = 0; // 0: one for each core that this process may use
  // The CPU's "host memory" is its own memory, so a transfer takes the time of a memory copy. With
  // a rate, transfers take as long as over a link of that rate in each direction, so that plans for
  // such a link can be tried.
  double linkBytesPerSecond = 0;
  std::shared_ptr<const MeasuredCosts> costs; // null: the target estimates costs
};

// `kernels` must outlive the device.
std::unique_ptr<Device> makeCpuDevice(const KernelTable &kernels, const CpuOptions &options = {});

// Counts bytes as the CPU device would, without computing: sizes, workspaces and peaks are the
// CPU's, for models of any size.
std::unique_ptr<Device> makeCountingDevice(const KernelTable &kernels,
                                           const CpuOptions &options = {});

} // namespace isthmus
