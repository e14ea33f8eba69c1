// Adds alternatives to a graph's problem: other ways to make the storages of its nodes.
#pragma once

#include "passes/rewrite/problem.h"

namespace isthmus {

// Appends the alternatives that `ways` allows, after the ops of all nodes. The ops and derivations
// of each alternative are added here; rematerialize.cc emits them. The planner and the judge know
// them only from the problem. Errors: an alternative that the target does not support.
llvm::Error addAlternatives(GraphProblem &p, const Graph &g, const Target &t, const Ways &ways);

} // namespace isthmus
