// Donations: the results that may take over the bytes of a dying operand. The planner's problem and
// the placement of graphs share this rule.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The storage of an operand or a result.
struct InPlaceStorage {
  ValueId root;           // the value that owns the storage
  bool isOfOther = false; // `root` is an id of a second graph (the inverse rules)
  int64_t bytes = 0;
  bool isPart = false; // the operand is only a part of it
  bool isPersistent = false;

  bool isSame(const InPlaceStorage &o) const { return root == o.root && isOfOther == o.isOfOther; }
};

// The in-place pairs of a node's row that hold for this node: result and operand have exactly the
// same size, neither storage is persistent, and no other operand shares the storage (except for
// elementwise ops, which read each element before they write it).
llvm::SmallVector<InPlace, 2> inPlacePairs(const Node &n,
                                           llvm::function_ref<InPlaceStorage(ValueId)> storageOf);

// The same for a node of a graph. `roots`: storageRoots of the graph.
llvm::SmallVector<InPlace, 2> inPlacePairs(const Graph &g, NodeId n, llvm::ArrayRef<ValueId> roots);

} // namespace isthmus
