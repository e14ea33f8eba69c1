#include "passes/checkpoint/forward_part.h"

#include "ir/loss_value.h"

#include <algorithm>

namespace isthmus {

std::vector<bool> forwardPart(const Graph &g) {
  std::vector<bool> isIn(g.numNodes(), false);
  auto add = [&](ValueId v) {
    if (NodeId def = g.value(v).def; def && !Graph::isReplaced(def))
      isIn[def.index] = true;
  };
  unsigned highest = 1;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).kind == OutputKind::Gradient)
      highest = std::max(highest, g.role(i).order);
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).kind == OutputKind::Gradient && g.role(i).order < highest)
      add(g.outputs()[i]);
  if (ValueId loss = lossOf(g))
    add(loss);
  for (uint32_t i = uint32_t(g.numNodes()); i-- > 0;) {
    const Node &n = g.node(NodeId(i));
    if (isIn[i])
      for (ValueId v : n.operands)
        add(v);
    isIn[i] = n.phase == Phase::Forward || (isIn[i] && n.phase == Phase::Backward);
  }
  return isIn;
}

} // namespace isthmus
