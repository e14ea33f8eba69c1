// Adds the inverses of a graph's nodes to its problem, as alternatives.
#pragma once

#include "ir/target.h"
#include "passes/rewrite/problem.h"

namespace isthmus {

// Appends the inverses to `p` and sets `p.inverses`, without inverses of values that `ways`
// excludes. Each node of a rule becomes an op, except views. Nodes shared by several rules become
// one op, and so do all iterations of a fixed point together. Errors: a node that the target cannot
// run.
llvm::Error addInverses(GraphProblem &p, const Graph &g, const Target &t, const Ways &ways);

} // namespace isthmus
