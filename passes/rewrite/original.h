// The graph that a rewritten one came from.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// Leaves out clones and boundaries: who read them reads the origin, or the value passed. Nodes are
// in the source order again, and the record knows nothing of a plan. A graph without
// clones comes back as it is.
Graph originalOf(const Graph &g);

// The value of the original that `v` is an instance of: `v` itself where that is one.
ValueId originalValue(const Graph &g, ValueId v);

// Whether a stand-in is an encoding: it keeps the sizes of what it stands for, and no more of its
// elements than a reader asks.
bool isEncoding(const Graph &g, const Node &standIn);

// The nodes that complete a rebuilding by inverses: their first results stand for what they
// restore, which they were not made from. (Nodes that only help are not among them.)
std::vector<NodeId> inversesIn(const Graph &g);

// By value: whether an inverse is among what it was made from, so that it is rounded otherwise than
// in the original.
llvm::BitVector dependOnInverses(const Graph &g);

} // namespace isthmus
