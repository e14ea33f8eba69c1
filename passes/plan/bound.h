// What no schedule can do without.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// No schedule, in whatever order and with whatever recomputation, has a lower peak. Takes a tenth
// of the default effort at most. Other ways to make a tensor (Op::isOptional) might do without most
// ops, so that only the bytes of all outputs count where there are any.
int64_t lowestPeak(const Problem &p);

} // namespace isthmus::plan
