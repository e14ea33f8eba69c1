#include "passes/inspect/neighbourhood.h"

#include "llvm/ADT/BitVector.h"

namespace isthmus {

std::vector<NodeId> nodesAround(const Graph &g, llvm::ArrayRef<ValueId> values, unsigned hops) {
  const Uses uses(g);
  llvm::BitVector isNear(unsigned(g.numNodes()));
  std::vector<NodeId> reached, next;
  auto reach = [&](NodeId n) {
    if (!n || Graph::isReplaced(n) || isNear.test(n.index))
      return;
    isNear.set(n.index);
    next.push_back(n);
  };
  for (ValueId v : values) {
    reach(g.value(v).def);
    for (NodeId reader : g.value(v).def ? llvm::ArrayRef<NodeId>() : uses.of(v))
      reach(reader);
  }
  for (unsigned hop = 0; hop < hops && !next.empty(); ++hop) {
    reached.swap(next);
    next.clear();
    for (NodeId n : reached) {
      for (ValueId v : g.node(n).operands)
        reach(g.value(v).def);
      for (uint32_t r = 0; r < g.node(n).numResults; ++r)
        for (NodeId reader : uses.of(g.node(n).result(r)))
          reach(reader);
    }
  }
  std::vector<NodeId> out;
  for (unsigned i : isNear.set_bits())
    out.push_back(NodeId(i));
  return out;
}

} // namespace isthmus
