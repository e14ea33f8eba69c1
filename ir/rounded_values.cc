#include "ir/rounded_values.h"

#include "ir/chunk_pieces.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
llvm::BitVector roundedValues(const Graph &g) {
  llvm::BitVector depend(unsigned(g.numValues()));
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).isRounded)
      depend.set(g.outputs()[i].index);
  if (g.numReplaced() > 0)
    depend |= chunkPiecesOf(g).rounds;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.is(StandIn::Inverse))
      depend.set(n.firstResult.index);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (llvm::any_of(n.operands, [&](ValueId v) { return depend.test(v.index); }))
      depend.set(n.firstResult.index, n.firstResult.index + n.numResults);
  }
  return depend;
}

void noteRoundedOutputs(Graph &g) {
  const llvm::BitVector rounded = roundedValues(g);
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    OutputRole role = g.role(i);
    role.isRounded = rounded.test(g.outputs()[i].index);
    g.setRole(i, role);
  }
}

} // namespace isthmus
