#include "passes/rewrite/original.h"

#include "passes/rebuild.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

bool isEncoding(const Graph &g, const Node &n) {
  const Type &type = g.type(n.firstResult), &whole = g.type(n.from.restores);
  return type.dims == whole.dims && type.dtype != whole.dtype;
}

std::vector<NodeId> inversesIn(const Graph &g) {
  std::vector<bool> onlyHelps(g.numNodes(), false); // read to restore the same value
  std::vector<NodeId> found;
  for (uint32_t i = uint32_t(g.numNodes()); i-- > 0;) {
    const Node &n = g.node(NodeId(i));
    if (!n.isStandIn() || n.isBoundary() || n.op->effect != Effect::Pure)
      continue;
    bool isMadeOfIt = false; // helper nodes may read the value that they restore
    for (ValueId v : n.operands) {
      const NodeId def = g.value(v).def;
      isMadeOfIt |= v == n.from.restores ||
                    (def && g.node(def).isClone() && originalValue(g, v) == n.from.restores);
      if (def && !isEncoding(g, n) && g.node(def).from.restores == n.from.restores)
        onlyHelps[def.index] = true;
    }
    if (g.type(n.firstResult) == g.type(n.from.restores) && !isMadeOfIt && !onlyHelps[i])
      found.push_back(NodeId(i));
  }
  std::reverse(found.begin(), found.end());
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
    if (const Node &n = g.node(NodeId(i)); !n.isClone() && !n.isStandIn())
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
  out.record.policy.clear();
  out.record.target.clear();
  out.record.budgetBytes.reset();
  return out;
}

} // namespace isthmus
