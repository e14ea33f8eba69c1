// From "which values are kept" to a schedule: the form that the fixed policies take.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// keep[op][output]: the value stays until its last use. Any other forward value may be dropped
// after its last use before the first backward op, and is then recomputed, once, just before the
// first backward op that needs it. Values that cannot be recomputed, views of kept values and what
// backward ops make are kept in any case. Chen et al., Training Deep Nets with Sublinear Memory
// Cost (2016), section 3, on any graph. Linear in ops and reads; the order of first runs is the
// source order.
Schedule scheduleKeeping(const Problem &p, const std::vector<std::vector<bool>> &keep);

} // namespace isthmus::plan
