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
      v = g.node(n.from.origin).result(g.value(v).resultIndex);
    else if (n.isStandIn())
      v = n.from.restores;
    else
      break;
  }
  return v;
}

} // namespace

Graph originalOf(const Graph &g) {
  std::vector<NodeId> order;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); !n.isClone() && !n.isStandIn())
      order.push_back(NodeId(i));
  llvm::stable_sort(order, [&](NodeId a, NodeId b) {
    return g.node(a).from.sourceIndex.value_or(a.index) <
           g.node(b).from.sourceIndex.value_or(b.index);
  });

  Rebuilder r(g);
  r.copyInputs();
  for (NodeId id : order) {
    for (ValueId v : g.node(id).operands)
      r.setMap(v, r.map(originalValue(g, v)));
    NodeId copy = r.copyNode(id);
    r.to().editNode(copy).from.sourceIndex.reset();
  }
  std::vector<Rebuilder::OldOutput> outputs;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    outputs.push_back({originalValue(g, g.outputs()[i]), g.role(i)});
  if (g.loss)
    r.setMap(g.loss, r.map(originalValue(g, g.loss)));
  Graph out = r.finish(outputs);
  out.record.policy.clear();
  out.record.target.clear();
  out.record.budgetBytes.reset();
  return out;
}

} // namespace isthmus
