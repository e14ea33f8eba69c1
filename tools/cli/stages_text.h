// What a person reads of a step over several devices.
#pragma once

#include "tools/cli/compiled.h"

namespace isthmus {

// A table with a line for each device, and a line on the schedule; empty with one device.
std::string stagesText(const Report &r);

// How even the cut is, where devices wait, and which of them bounds the step.
std::string boundText(const Report &r);

} // namespace isthmus
