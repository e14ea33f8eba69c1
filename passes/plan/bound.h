// Lower bounds on the peak and on the cost of every schedule of a problem.
#pragma once

#include "passes/plan/problem.h"

#include <optional>

namespace isthmus::plan {

// Whether the source order is the only schedule: the order is fixed, every op is needed, and none
// may run again. (Views may, which changes nothing.)
bool hasOneSchedule(const Problem &p);

// A lower bound on the peak of every schedule, whatever its order and its recomputation. Takes at
// most a tenth of the default effort. With alternatives, the bound is only the larger of two sums:
// the working set of one op that every schedule runs, and all outputs. Where there is one schedule,
// its peak.
int64_t lowestPeak(const Problem &p);
// The same bound for the problem without its alternatives.
int64_t lowestPeakOfOriginals(const Problem &p);

// A lower bound on the cost of every schedule, whatever the budget: each op that the outputs need
// under every choice of forms runs once, by its cheapest form. None if a prefetch may stand for the
// first run of an op.
std::optional<double> leastCostAtAll(const Problem &p);

} // namespace isthmus::plan
