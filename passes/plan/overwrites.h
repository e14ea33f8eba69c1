// Ops that overwrite the bytes of pinned storages, and the readers of those storages. Standard
// library only.
#pragma once

#include "passes/plan/faults.h"

namespace isthmus::plan {

// By op: the other ops that overwrite one of its operands, or the storage behind a view among them;
// sorted. Empty if no op overwrites anything.
std::vector<std::vector<OpIndex>> overwritersOfReads(const Problem &p);

// The first op that overwrites a storage that it may not, or reads an overwritten storage; none if
// the problem is valid. Alternatives must follow problem.h.
std::optional<Fault> faultOfOverwrites(const Problem &p);

// The same steps, except that an op that overwrites something is delayed until after its last other
// reader.
Schedule withLateOverwrites(const Problem &p, const Schedule &s);

} // namespace isthmus::plan
