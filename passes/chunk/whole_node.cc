#include "passes/chunk/whole_node.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

NodeId wholeNode(const Graph &g) {
  std::vector<bool> afterChunk(g.numValues(), false);
  auto readsChunk = [&](const Node &n) {
    return llvm::any_of(n.operands, [&](ValueId v) { return afterChunk[v.index]; });
  };
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const bool reads = readsChunk(n);
    for (uint32_t r = 0; r < n.numResults; ++r)
      afterChunk[n.result(r).index] = reads || n.is(StandIn::Chunk);
  }
  std::vector<bool> beforeChunk(g.numValues(), false);
  NodeId first; // the others may only follow from it
  for (uint32_t i = uint32_t(g.numNodes()); i-- > 0;) {
    const Node &n = g.node(NodeId(i));
    bool isRead = false;
    for (uint32_t r = 0; r < n.numResults; ++r)
      isRead |= beforeChunk[n.result(r).index];
    if (isRead && readsChunk(n) && !n.is(StandIn::Chunk) && n.phase == Phase::Forward &&
        !n.op->is(kView))
      first = NodeId(i);
    for (ValueId v : n.operands)
      if (n.is(StandIn::Chunk) || isRead)
        beforeChunk[v.index] = true;
  }
  return first;
}

} // namespace isthmus
