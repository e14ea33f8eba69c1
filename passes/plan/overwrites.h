// Ops that leave results in the bytes of something pinned, and what reads that. Standard library
// only.
#pragma once

#include "passes/plan/faults.h"

namespace isthmus::plan {

// By op: the other ops that overwrite what it reads, be it in a view; sorted. Empty where no op
// overwrites anything.
std::vector<std::vector<OpIndex>> overwritersOfReads(const Problem &p);

// The first op that overwrites what it may not, or reads what was overwritten; none if all is well.
// Alternatives are as problem.h says.
std::optional<Fault> faultOfOverwrites(const Problem &p);

// The same steps, but that an op which overwrites something waits for the last that reads it.
Schedule withLateOverwrites(const Problem &p, const Schedule &s);

} // namespace isthmus::plan
