// Recovers the original of a rewritten graph.
#pragma once

#include "ir/provenance.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// Removes clones and stand-ins (boundaries, transfers, encodings, inverses): their readers read the
// origin, or the value that the stand-in replaces. Nodes are in the source order again, and policy,
// target and budget are cleared from the record.
Graph originalOf(const Graph &g);

// Whether a stand-in is an encoding: it has the dimensions of the value that it replaces but
// another element type, with the information that a reader needs.
bool isEncoding(const Graph &g, const Node &standIn);

// The last node of each inverse: its first result replaces the value that it restores, which is not
// among its operands. Helper nodes of inverses are not included.
std::vector<NodeId> inversesIn(const Graph &g);

// By value: whether it depends on an inverse, so that its rounding differs from the original's.
llvm::BitVector dependOnInverses(const Graph &g);

} // namespace isthmus
