#include "ir/rounded_values.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

constexpr char kRoundedOutputs[] = "rounded_outputs"; // their names, one a line

// Whether the node adds the sums of two chunks, where the whole has one sum.
bool addsChunks(const Graph &g, const Node &n) {
  if (!n.is(StandIn::Chunk) || n.op->name != "add")
    return false;
  const NodeId def = g.value(n.from.restores).def;
  return !def || g.node(def).op != n.op;
}

} // namespace

llvm::BitVector roundedValues(const Graph &g) {
  llvm::BitVector depend(unsigned(g.numValues()));
  if (auto noted = g.meta.find(kRoundedOutputs); noted != g.meta.end())
    for (llvm::StringRef name : llvm::split(noted->second, '\n'))
      if (const ValueId v = g.find(name))
        depend.set(v.index);
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

void noteRoundedOutputs(Graph &g) {
  const llvm::BitVector rounded = roundedValues(g);
  std::string names;
  for (ValueId v : g.outputs())
    if (rounded.test(v.index))
      names += (names.empty() ? "" : "\n") + g.valueName(v).str();
  if (!names.empty())
    g.meta[kRoundedOutputs] = names;
}

} // namespace isthmus
