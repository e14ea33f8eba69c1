// The part of a graph around some of its values.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The nodes that make the values, and all nodes that are at most `hops` reads away from these, in
// either direction; in order. For a graph input, its readers take the place of its maker.
std::vector<NodeId> nodesAround(const Graph &g, llvm::ArrayRef<ValueId> values, unsigned hops);

} // namespace isthmus
