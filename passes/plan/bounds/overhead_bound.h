// A lower bound on the cost of a schedule within a budget.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

struct OverheadBound {
  double cost = 0;         // microseconds, of a whole schedule
  OpIndex at = 0;          // the op whose first run gives the bound, if `pricePerByte` > 0
  double pricePerByte = 0; // about what one more byte would save, microseconds
};

// A lower bound on the cost of every schedule within the budget whose ops run for the first time in
// the same order as in `plan` (views left out), with any recomputation in between. `plan` must be
// valid. `bestKnownCost` is its cost or that of a better plan; it steers the search and may be 0.
// `work` has the planner's unit.
OverheadBound leastCost(const Problem &p, const Schedule &plan, int64_t budgetBytes,
                        double bestKnownCost, uint64_t work);

} // namespace isthmus::plan
