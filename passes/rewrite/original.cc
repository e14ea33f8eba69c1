#include "passes/rewrite/original.h"

#include "passes/rebuild.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

std::vector<NodeId> inversesIn(const Graph &g) {
  std::vector<NodeId> found;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).is(StandIn::Inverse))
      found.push_back(NodeId(i));
  return found;
}

llvm::BitVector dependOnInverses(const Graph &g) {
  llvm::BitVector depend(unsigned(g.numValues()));
  for (NodeId id : inversesIn(g))
    depend.set(g.node(id).firstResult.index);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (llvm::any_of(n.operands, [&](ValueId v) { return depend.test(v.index); }))
      depend.set(n.firstResult.index, n.firstResult.index + n.numResults);
  }
  return depend;
}

Graph originalOf(const Graph &g) {
  std::vector<NodeId> order;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); !n.isStandIn())
      order.push_back(NodeId(i));
  llvm::stable_sort(order,
                    [&](NodeId a, NodeId b) { return sourceIndex(g, a) < sourceIndex(g, b); });

  Rebuilder r(g);
  r.copyInputs();
  for (NodeId id : order) {
    for (ValueId v : g.node(id).operands)
      r.setMap(v, r.map(originalValue(g, v)));
    NodeId copy = r.copyNode(id);
    r.to().editNode(copy).from.sourceIndex.reset();
  }
  std::vector<Rebuilder::OldOutput> outputs;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    OutputRole role = g.role(i);
    if (role.kind != OutputKind::Result)
      role.of = originalValue(g, role.of);
    outputs.push_back({originalValue(g, g.outputs()[i]), role});
  }
  if (g.loss)
    r.setMap(g.loss, r.map(originalValue(g, g.loss)));
  Graph out = r.finish(outputs);
  out.record.policy = PlannedBy::Nothing;
  out.record.target.clear();
  out.record.budgetBytes.reset();
  return out;
}

} // namespace isthmus
