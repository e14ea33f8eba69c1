// Makes the smallest graph that it finds for which a failure remains, by delta debugging on nodes
// (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
#pragma once

#include "ir/graph.h"
#include <functional>

namespace isthmus {

// Returns a graph for which `fails` holds, as it must for `g`. Outputs are removed or replaced by
// their operands, groups of nodes (first halves, then smaller ones) are replaced by inputs, and
// single results by operands of the same type, until no such step succeeds. The result has a loss,
// of any float type, if `g` has one. New inputs get initializers within the intervals, and below
// the index bounds, of the nodes that read them.
Graph reduce(Graph g, const std::function<bool(const Graph &)> &fails);

} // namespace isthmus
