// The rewrite: a schedule over a graph's problem becomes a graph.
#pragma once

#include "passes/rewrite/problem.h"

namespace isthmus {

// `g` is an original (no clones), `p` its problem, `s` a valid schedule over it. The first run of
// an op is its node; every later one a clone, phase Backward, which reads values of forward nodes
// through a boundary, one for each such value. Alternatives become what their
// derivation says: both ends of a transfer, an encoding, or the node over an encoded operand.
// Readers take the newest instance; the loss stays the first. A clone that reads no other clone,
// and the start of a prefetch, get an `after` edge to the last backward node before them, so that a
// framework which reorders nodes does not start them early. Where the schedule runs nodes in
// another order, each node records its place in `g`.
Graph rematerialize(const Graph &g, const GraphProblem &p, const plan::Schedule &s);

} // namespace isthmus
