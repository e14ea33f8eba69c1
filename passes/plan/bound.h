// What no schedule can do without.
#pragma once

#include "passes/plan/problem.h"

#include <optional>

namespace isthmus::plan {

// No schedule, in whatever order and with whatever recomputation, has a lower peak. Takes a tenth
// of the default effort at most. Where there are alternatives, no more than the working set of one
// op that no schedule can do without, and all outputs.
int64_t lowestPeak(const Problem &p);
// The same as if there were no alternatives.
int64_t lowestPeakOfOriginals(const Problem &p);

// No schedule costs less, whatever the budget: each op that the outputs need, whichever forms of
// ops are taken, runs once, by its cheapest form. None where a prefetch may stand for an op's first
// run.
std::optional<double> leastCostAtAll(const Problem &p);

} // namespace isthmus::plan
