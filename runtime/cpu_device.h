// The CPU: kernels run at once on the calling thread and an OpenMP team of the size asked for.
#pragma once

#include "runtime/device.h"

namespace isthmus {

// `threads` 0 means one for each core that this process may use. `kernels` must outlive the device.
std::unique_ptr<Device> makeCpuDevice(const KernelTable &kernels, int threads);

// Keeps the books of the CPU device without computing: sizes, workspaces and peaks are the CPU's,
// at any model size.
std::unique_ptr<Device> makeCountingDevice(const KernelTable &kernels, int threads);

} // namespace isthmus
