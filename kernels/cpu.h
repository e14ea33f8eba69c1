// All that this build computes with on a CPU.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

// Every kernel, in the order in which they are asked.
const KernelTable &cpuKernels();

} // namespace isthmus
