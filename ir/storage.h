// Which values are the same bytes.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The next value of a graph input, made by a node of the update phase whose row lets it write over
// the input and that is given gradients: it may lie in the input's bytes, where nothing reads the
// input afterwards. So an optimizer updates parameters in their places (XLA calls that donated
// buffers). What is made of the forward part alone, such as a running average, is left out: its
// input may be read again where a forward node is recomputed.
struct Overwrite {
  NodeId node;
  uint32_t result = 0, operand = 0; // of the node; the operand is the input itself
  NodeId lastReader;                // of the input or a view of it, the node included
  bool isInPlace() const { return lastReader == node; }
};

// All of a graph, in order. Nothing reads what the node makes, and no output is the input.
std::vector<Overwrite> possibleOverwrites(const Graph &g);

// For each value the one whose storage it shares: a view's operand's, the graph input's that an
// update in place overwrites, or its own.
std::vector<ValueId> storageRoots(const Graph &g);

} // namespace isthmus
