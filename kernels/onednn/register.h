// Fast kernels by oneDNN; they must be registered before the plain ones. A kernel declines a call
// if oneDNN has no implementation that is fast and allocates no memory of its own.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

void registerOneDnnKernels(KernelTable &table); // all of the below

void registerOneDnnConv(KernelTable &table);

} // namespace isthmus
