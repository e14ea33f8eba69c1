#include "ir/loss_value.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

ValueId lossOf(const Graph &g) {
  if (g.loss)
    return g.loss;
  for (ValueId v : llvm::reverse(g.outputs()))
    if (const NodeId def = g.value(v).def; def && g.node(def).phase == Phase::Forward &&
                                           !g.node(def).isStandIn() && g.type(v).rank() == 0)
      return v;
  return ValueId();
}

} // namespace isthmus
