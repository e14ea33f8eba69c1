// Makes a graph that shows a failure small: delta debugging (Zeller and Hildebrandt, Simplifying
// and Isolating Failure-Inducing Input, 2002) on nodes.
#pragma once

#include "ir/graph.h"
#include <functional>

namespace isthmus {

// A graph for which `fails` holds, as it does for `g`: outputs are left out or replaced by what
// they are made of, groups of nodes (halves first, then ever smaller ones) by inputs, single ones
// by an operand of their result's type, until no such step is left. Where `g` has a loss the result
// has one, of whatever float type. New inputs get initializers within the intervals, and below the
// index bounds, of the nodes that read them.
Graph reduce(Graph g, const std::function<bool(const Graph &)> &fails);

} // namespace isthmus
