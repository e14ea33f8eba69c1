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

// Whether the node adds the sums of two chunks, where the whole has one sum.
static bool addsChunks(const Graph &g, const Node &n) {
  if (!n.is(StandIn::Chunk) || n.op->name != "add")
    return false;
  const NodeId def = g.value(n.from.restores).def;
  return !def || g.node(def).op != n.op;
}

llvm::BitVector roundedValues(const Graph &g) {
  llvm::BitVector depend(unsigned(g.numValues()));
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.is(StandIn::Inverse) || addsChunks(g, n))
      depend.set(n.firstResult.index);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (llvm::any_of(n.operands, [&](ValueId v) { return depend.test(v.index); }))
      depend.set(n.firstResult.index, n.firstResult.index + n.numResults);
  }
  return depend;
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
