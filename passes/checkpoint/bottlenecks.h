// Bottlenecks: values on every path from the data to the loss.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The bottlenecks in execution order: the values that are articulation points of the graph whose
// vertices are the forward nodes between the data and the loss, and their values. Nodes that depend
// on no data are side branches: they can be computed where they are needed, so they hide no
// bottleneck. Data are the graph's inputs. Constants are data and not parts of side branches
// (masks, scales of weights) if the graph then has more bottlenecks, and so is what is drawn (and
// not a mask of dropout). Hopcroft and Tarjan 1973, by Boost.Graph; linear time (its depth-first
// search keeps its own stack). Empty if a path bypasses each value.
std::vector<ValueId> bottlenecks(const Graph &g);

} // namespace isthmus
