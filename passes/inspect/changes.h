// What distinguishes a graph from another one of the same network, node by node.
#pragma once

#include "ir/graph.h"

namespace isthmus {

enum class Change : uint8_t {
  Same,
  New,    // the other graph has no node of this name
  Changed // it has one with another op, other attributes, types, or operands
};

struct Changes {
  std::vector<Change> of;   // by node
  std::vector<NodeId> gone; // nodes of the other graph whose names this one lacks
};
// Nodes and operands are compared by name.
Changes changesOf(const Graph &g, const Graph &other);

} // namespace isthmus
