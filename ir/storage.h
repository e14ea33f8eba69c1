// Which values share a storage.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// A possible in-place update of a graph input. A node of the update phase makes the input's next
// value from gradients, and its row lets it write over the input: the next value may take the
// input's bytes if no later node reads the input. This lets optimizers update parameters in place
// (XLA calls that donated buffers). Next values that come from the forward part alone, such as
// running averages, are left out: a recomputed forward node may read their input again.
struct Overwrite {
  NodeId node;
  uint32_t result = 0, operand = 0; // indices in the node; the operand is the graph input itself
  NodeId lastReader; // the last node that reads the input or a view of it, perhaps `node` itself
  bool isInPlace() const { return lastReader == node; }
};

// All possible overwrites of a graph, in node order. In each, no node reads a result of `node`, and
// neither the input nor a view of it is an output.
std::vector<Overwrite> possibleOverwrites(const Graph &g);

// By value: whether it depends on gradients. Clones and stand-ins count as what they stand for.
llvm::BitVector valuesOfGradients(const Graph &g);

// For each value, the value whose storage it has: for a view the root of its operand, for an
// in-place update the graph input that it overwrites, else the value itself.
std::vector<ValueId> storageRoots(const Graph &g);

// For each value, where it begins in the storage of its root, in bytes: only views begin elsewhere
// than at 0.
std::vector<int64_t> storageOffsets(const Graph &g);

} // namespace isthmus
