// Fast kernels by oneDNN, to be registered before the plain ones. Each declines calls for which
// oneDNN has no implementation that is both fast and content with the memory it is given.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

void registerOneDnnKernels(KernelTable &table); // all of the below

void registerOneDnnConv(KernelTable &table);

} // namespace isthmus
