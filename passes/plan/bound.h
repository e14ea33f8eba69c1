// What no schedule can do without.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// No schedule has a lower peak: the bytes of all outputs, or the largest working set of one op that
// must run (what it reads and makes and its workspace, less results that might take over an
// operand).
int64_t lowestPeak(const Problem &p);

} // namespace isthmus::plan
