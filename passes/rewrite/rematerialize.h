// The rewrite: a schedule over a graph's problem becomes a graph.
#pragma once

#include "passes/rewrite/problem.h"

namespace isthmus {

// `g` is an original (no clones), `p` its problem, `s` a valid schedule over it. The first run of
// an op is its node; every later one a clone, phase Backward, which reads values of forward nodes
// that are no clones through a boundary, one for each such value. Readers take the newest copy; the
// loss stays the first. A
// clone that reads no other clone gets an `after` edge to the last backward node before it, so that
// a framework which reorders nodes does not start it early. Where the schedule runs nodes in
// another order, each node records its place in `g`.
Graph rematerialize(const Graph &g, const GraphProblem &p, const plan::Schedule &s);

} // namespace isthmus
