// Checks the alternatives of a problem against the rules of problem.h. Standard library only.
#pragma once

#include "passes/plan/faults.h"

namespace isthmus::plan {

// The first op that breaks a rule of problem.h on alternatives or their readers; none if the
// problem is valid.
std::optional<Fault> faultOfAlternatives(const Problem &p);

} // namespace isthmus::plan
