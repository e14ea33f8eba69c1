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

Graph originalOf(const Graph &g) {
  std::vector<NodeId> order;
  for (size_t i = 0; i < g.numReplaced(); ++i)
    order.push_back(g.replaced(i));
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
  for (size_t i = 0; i < g.outputs().size(); ++i) // chunks that make an output have its name
    if (const ValueId v = g.outputs()[i];
        Graph::isReplaced(g.value(originalValue(g, v)).def) && !out.find(g.valueName(v)))
      out.rename(out.outputs()[i], g.valueName(v));
  out.record.policy = PlannedBy::Nothing;
  out.record.target.clear();
  out.record.budgetBytes.reset();
  return out;
}

} // namespace isthmus
