// What the nodes of a rewritten graph stand for in its original, and whether that is true.
#pragma once

#include "ir/verifier.h"

namespace isthmus {

// The value of the original that `v` stands for; `v` itself if it is a value of the original.
ValueId originalValue(const Graph &g, ValueId v);

// The forward node that the node belongs to: itself, or that of whose gradient it is a part. What a
// stand-in stands for decides. None for updates, and where the graph does not say it.
NodeId forwardNodeOf(const Graph &g, NodeId n);

// The node's index in the original graph; it must be neither a clone nor a stand-in.
inline uint32_t sourceIndex(const Graph &g, NodeId n) {
  return g.node(n).from.sourceIndex.value_or(n.index);
}

// Sets the kind of every node that restores a value where a file of before does not say it.
void inferStandIns(Graph &g);

// Where the provenance of `g` contradicts its nodes, so that the original is another function than
// the graph. The graph must have no other violation. The rules:
//   - an operand of a clone stands for the same value as that operand of the origin;
//   - a boundary or a transfer restores the value that its operand stands for;
//   - an encoding encodes the value; an inverse computes what the op table's inverse of a node of
//     the graph does (inverse_rules.h), and a helper a part of one;
//   - where it is read in place of the value that it restores, it is an encoding that the reader's
//     row takes, or the result of an inverse of a node that reads the value;
//   - in the source order, no two nodes have the same place, and operands come before their
//     readers; a clone with a place has that of its origin, and a stand-in has none.
std::vector<Violation> provenanceViolations(const Graph &g);

} // namespace isthmus
