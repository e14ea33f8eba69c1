// The inverses of a graph's nodes, as alternatives of its problem.
#pragma once

#include "ir/target.h"
#include "passes/rewrite/problem.h"

namespace isthmus {

// Appends them to `p`, whose `inverses` they are, but for those of values that `ways` excludes.
// Each node of a rule is an op of its own, but for views; what several rules share is one op, and
// so is a run of iterations. Errors: a node that the target cannot run.
llvm::Error addInverses(GraphProblem &p, const Graph &g, const Target &t, const Ways &ways);

} // namespace isthmus
