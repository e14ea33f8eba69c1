#include "ir/builder.h"
#include "passes/chunk/chunk.h"
#include "passes/rebuild.h"

namespace isthmus {

Graph withUnreducedLosses(const Graph &g) {
  Rebuilder r(g);
  r.copyInputs();
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    ValueList made;
    if (n.op->unreduced) {
      Builder b(r.to());
      r.standWith(b, NodeId(i));
      b.prefix = g.nodeName(NodeId(i)).str() + ".";
      ExpandContext context{b, n.attrs, {}};
      for (ValueId v : n.operands)
        context.operands.push_back(r.map(v));
      made = n.op->unreduced(context);
    }
    if (made.empty()) {
      r.copyNode(NodeId(i));
      continue;
    }
    for (uint32_t k = 0; k < n.numResults; ++k) {
      r.setMap(n.result(k), made[k]);
      r.to().rename(made[k], g.valueName(n.result(k)));
    }
  }
  return r.finish();
}

} // namespace isthmus
