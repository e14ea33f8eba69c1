// Bottlenecks: values through which every path from the data to the loss passes.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Articulation points of the graph whose vertices are the forward nodes on the way from the data to
// the loss, and their values; in execution order. Nodes fed by parameters and constants alone are
// side branches: they can be computed where they are needed, so they hide no bottleneck. Hopcroft
// and Tarjan 1973, by Boost.Graph; linear time (its depth-first search keeps its own stack). Empty
// if everything has a way round.
std::vector<ValueId> bottlenecks(const Graph &g);

// The value that the forward part ends in: Graph::loss, else the last forward output that backward
// nodes seed.
ValueId lossOf(const Graph &g);

} // namespace isthmus
