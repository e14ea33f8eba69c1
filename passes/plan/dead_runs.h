// Removes the steps of a schedule whose instances nothing reads.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// Returns `s` without the steps whose instances nothing reads before their op runs again. A search
// evicts storages that it has made; if it evicts one before the first use, the first run is
// useless. Every op still runs, and every required order still holds. The cost falls, and no
// storage lives longer. Linear in the length of the schedule and the number of reads. `s` must be
// valid by `evaluate`.
Schedule withoutDeadRuns(const Problem &p, const Schedule &s);

} // namespace isthmus::plan
