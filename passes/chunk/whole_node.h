// Nodes at which the parts of a step meet.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct WholeNode {
  NodeId node;
  bool isBeforeForward; // a later forward chunk reads what follows from it
};

// The forward nodes, views apart, that are in no chunk, read what chunks give, and are read by
// later chunks. All parts of a step wait for the first of them; the others may only follow from it.
std::vector<WholeNode> wholeNodes(const Graph &g);

} // namespace isthmus
