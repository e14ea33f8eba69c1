// Runs of a schedule that nobody needs.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// `s` without runs whose instances nothing reads before their op runs again. A search evicts what
// it has made; where it does so before the first use, the first run is of no use. Every op still
// runs, and what has to come first still does. The cost falls, and no storage lives longer. Linear
// in the length of the schedule and the number of reads. `s` is valid by `evaluate`.
Schedule withoutDeadRuns(const Problem &p, const Schedule &s);

} // namespace isthmus::plan
