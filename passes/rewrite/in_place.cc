#include "passes/rewrite/in_place.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

llvm::SmallVector<InPlace, 2> inPlacePairs(const Node &n,
                                           llvm::function_ref<InPlaceStorage(ValueId)> storageOf) {
  llvm::SmallVector<InPlace, 2> pairs;
  for (const InPlace &pair : n.op->inPlace) {
    if (pair.operand >= n.operands.size())
      continue;
    const InPlaceStorage from = storageOf(n.operands[pair.operand]),
                         made = storageOf(n.result(pair.result));
    const auto sharing =
        llvm::count_if(n.operands, [&](ValueId v) { return storageOf(v).isSame(from); });
    // Sizes are compared unrounded: a broadcast operand may round up to the same size, but its
    // elements are read more than once.
    const bool isSameSize = from.bytes == made.bytes;
    if (!from.isPersistent && !from.isPart && !made.isPersistent && isSameSize &&
        (sharing == 1 || n.op->is(kElementwise)))
      pairs.push_back(pair);
  }
  return pairs;
}

llvm::SmallVector<InPlace, 2> inPlacePairs(const Graph &g, NodeId id,
                                           llvm::ArrayRef<ValueId> roots) {
  return inPlacePairs(g.node(id), [&](ValueId v) {
    const ValueId root = roots[v.index];
    const int64_t bytes = g.type(root).bytes();
    return InPlaceStorage{root, false, bytes, g.type(v).bytes() != bytes, !g.value(root).def};
  });
}

} // namespace isthmus
