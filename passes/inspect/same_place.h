// Where two graphs of one network are equally far in the step, so that pictures of both can be
// drawn over each other.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct SamePlace {
  uint32_t a = 0, b = 0; // nodes of the two graphs
};

// As many as possible of these pairs, so that both numbers ascend. `pairs` ascend in `a`. O(n log
// n).
std::vector<SamePlace> ascending(llvm::ArrayRef<SamePlace> pairs);

// Nodes that both graphs have by the same name and that are no stand-ins; ascending in both graphs.
// Where the orders differ, as many as possible are taken. O(n log n).
std::vector<SamePlace> samePlaces(const Graph &a, const Graph &b);

} // namespace isthmus
