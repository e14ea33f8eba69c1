// What a problem may get wrong about its alternatives. Standard library only.
#pragma once

#include "passes/plan/faults.h"

namespace isthmus::plan {

// The first alternative, or the first reader of one, that is not what problem.h says; none if all
// is well.
std::optional<Fault> faultOfAlternatives(const Problem &p);

} // namespace isthmus::plan
