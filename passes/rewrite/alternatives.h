// Other ways to have what a graph's nodes make, as alternatives of its problem.
#pragma once

#include "passes/rewrite/problem.h"

namespace isthmus {

// Appends them, after all nodes. Each way adds its ops and their derivations here, and is emitted
// in rematerialize.cc; the planner and the judge know it by the problem alone. Errors: a way that
// the target lacks.
llvm::Error addAlternatives(GraphProblem &p, const Graph &g, const Target &t, const Ways &ways);

} // namespace isthmus
