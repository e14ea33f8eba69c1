// Where a result may take over the bytes of an operand that dies: the rule that the planner's
// problem and the placing of graphs share.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The storage in which an operand or a result lies.
struct InPlaceStorage {
  ValueId root;           // it, by the value whose storage it is
  bool isOfOther = false; // `root` counts among the values of another graph than the node's
  int64_t bytes = 0;
  bool isPersistent = false;

  bool isSame(const InPlaceStorage &o) const { return root == o.root && isOfOther == o.isOfOther; }
};

// The pairs of a node's row that hold here: result and operand are of one size to the byte, neither
// lies in something persistent, and no other operand shares the storage (but for elementwise
// ops, where each element is read before it is written).
llvm::SmallVector<InPlace, 2> inPlacePairs(const Node &n,
                                           llvm::function_ref<InPlaceStorage(ValueId)> storageOf);

// `roots`: storageRoots of the graph.
llvm::SmallVector<InPlace, 2> inPlacePairs(const Graph &g, NodeId n, llvm::ArrayRef<ValueId> roots);

} // namespace isthmus
