#include "passes/simplify/dce.h"

#include "passes/rebuild.h"

namespace isthmus {

llvm::BitVector liveNodes(const Graph &g, llvm::ArrayRef<ValueId> outputs) {
  llvm::BitVector live(static_cast<unsigned>(g.numNodes()));
  auto use = [&](ValueId v) {
    if (v && g.value(v).def)
      live.set(g.value(v).def.index);
  };
  for (ValueId v : outputs)
    use(v);
  use(g.loss);
  // A node refers only to earlier nodes, so one backward walk finds all live ones.
  for (uint32_t i = static_cast<uint32_t>(g.numNodes()); i-- > 0;) {
    if (!live.test(i))
      continue;
    const Node &n = g.node(NodeId(i));
    for (ValueId v : n.operands)
      use(v);
    use(n.from.restores);
    if (n.from.origin)
      live.set(n.from.origin.index);
  }
  // What is sent keeps its bytes until a wait for it, which nobody reads. All that such a wait
  // refers to is live already.
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.op->is(kWait))
      if (const NodeId start = g.value(n.operands[1]).def; start && live.test(start.index))
        live.set(i);
  return live;
}

llvm::BitVector liveNodes(const Graph &g) { return liveNodes(g, g.outputs()); }

Graph withoutDeadNodes(const Graph &g) {
  llvm::BitVector live = liveNodes(g);
  Rebuilder r(g);
  r.copyInputs();
  for (unsigned i : live.set_bits())
    r.copyNode(NodeId(i));
  return r.finish();
}

} // namespace isthmus
