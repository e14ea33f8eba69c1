// Turns a choice of checkpoints into a schedule. The fixed policies use it.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// isCheckpoint[op][output]: the value stays live until its last use. Every other forward value is
// evicted after its last use by a forward op, and is recomputed, once, just before the first
// backward op that needs it; in a step whose chunks run one after another, a value whose uses by
// forward ops enclose one by a backward op stays. Values that cannot be recomputed, views of
// checkpoints and results of backward ops always stay. Chen et al., Training Deep Nets with
// Sublinear Memory Cost (2016), section 3, on any graph. Linear in ops and reads; ops run for the
// first time in source order. Alternatives do not run.
Schedule checkpointSchedule(const Problem &p, const std::vector<std::vector<bool>> &isCheckpoint);

} // namespace isthmus::plan
