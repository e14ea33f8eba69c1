// The first step of a graph on a device, for compile() to measure the errors of inverses.
#pragma once

#include "passes/compile/compile.h"
#include "runtime/device.h"
#include "tools/cli/feeds.h"

namespace isthmus {

// Inputs that are not given get their defaults by the seed. `device` must outlive the function.
// Null if the device does not compute.
FirstStep firstStepOn(Device &device, const GivenInputs &given, uint64_t seed);

} // namespace isthmus
