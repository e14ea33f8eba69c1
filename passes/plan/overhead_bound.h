// The least cost within a budget, or something below it.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

struct OverheadBound {
  double cost = 0; // microseconds, of a whole schedule
  OpIndex at = 0;  // the op at whose first run the budget is felt most, if `pricePerByte` > 0
  double pricePerByte = 0; // about what one more byte would save, microseconds
};

// No schedule within the budget costs less, if its ops run for the first time in the same order as
// in `plan` (views left out), with any recomputation in between. `plan` has to be valid; its cost,
// or that of a better one, is `bestKnownCost`: it steers the search and may be 0. The unit of
// `work` is that of the planner's.
OverheadBound leastCost(const Problem &p, const Schedule &plan, int64_t budgetBytes,
                        double bestKnownCost, uint64_t work);

} // namespace isthmus::plan
