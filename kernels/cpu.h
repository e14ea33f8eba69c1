// All kernels of this build for the CPU.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

// The table of all kernels, in the order in which they are tried.
const KernelTable &cpuKernels();

} // namespace isthmus
