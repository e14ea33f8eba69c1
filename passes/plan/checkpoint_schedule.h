// From a choice of checkpoints to a schedule: the form that the fixed policies take.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// isCheckpoint[op][output]: the value stays until its last use. Any other forward value is evicted
// after its last use before the first backward op, and is recomputed, once, just before the first
// backward op that needs it. Values that cannot be recomputed, views of checkpoints and what
// backward ops make stay in any case. Chen et al., Training Deep Nets with Sublinear Memory Cost
// (2016), section 3, on any graph. Linear in ops and reads; ops run for the first time in source
// order.
Schedule checkpointSchedule(const Problem &p, const std::vector<std::vector<bool>> &isCheckpoint);

} // namespace isthmus::plan
