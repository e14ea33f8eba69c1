#include "passes/rewrite/original.h"

#include "passes/rebuild.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// The value of the original graph that `v` is a copy of.
ValueId originalValue(const Graph &g, ValueId v) {
  while (NodeId def = g.value(v).def) {
    const Node &n = g.node(def);
    if (n.isClone())
      v = g.node(n.origin).result(g.value(v).resultIndex);
    else if (n.isBoundary())
      v = n.passes;
    else
      break;
  }
  return v;
}

} // namespace

Graph originalOf(const Graph &g) {
  std::vector<NodeId> order;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); !n.isClone() && !n.isBoundary())
      order.push_back(NodeId(i));
  llvm::stable_sort(order, [&](NodeId a, NodeId b) {
    return g.node(a).sourceIndex.value_or(a.index) < g.node(b).sourceIndex.value_or(b.index);
  });

  Rebuilder r(g);
  r.copyInputs();
  for (NodeId id : order) {
    for (ValueId v : g.node(id).operands)
      r.setMap(v, r.map(originalValue(g, v)));
    NodeId copy = r.copyNode(id);
    r.to().editNode(copy).sourceIndex.reset();
  }
  llvm::SmallVector<ValueId, 8> outputs;
  for (ValueId v : g.outputs())
    outputs.push_back(originalValue(g, v));
  if (g.loss)
    r.setMap(g.loss, r.map(originalValue(g, g.loss)));
  Graph out = r.finish(outputs);
  for (const char *key : {"target", "policy", "budget"})
    out.meta.erase(key);
  return out;
}

} // namespace isthmus
