#include "passes/inspect/changes.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// The node of that name which runs; none if there is none.
NodeId nodeNamed(const Graph &g, llvm::StringRef name) {
  const ValueId v = g.find(name);
  const NodeId def = v ? g.value(v).def : NodeId();
  return def && !Graph::isReplaced(def) && g.nodeName(def) == name ? def : NodeId();
}

bool isSame(const Graph &g, const Node &a, const Graph &other, const Node &b) {
  if (a.op->name != b.op->name || a.phase != b.phase || !(a.attrs == b.attrs) ||
      a.numResults != b.numResults || a.operands.size() != b.operands.size())
    return false;
  for (uint32_t r = 0; r < a.numResults; ++r)
    if (g.type(a.result(r)) != other.type(b.result(r)))
      return false;
  return llvm::all_of(llvm::zip(a.operands, b.operands), [&](const auto &pair) {
    return g.valueName(std::get<0>(pair)) == other.valueName(std::get<1>(pair));
  });
}

} // namespace

Changes changesOf(const Graph &g, const Graph &other) {
  Changes out;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const NodeId there = nodeNamed(other, g.nodeName(NodeId(i)));
    out.of.push_back(!there                                                   ? Change::New
                     : isSame(g, g.node(NodeId(i)), other, other.node(there)) ? Change::Same
                                                                              : Change::Changed);
  }
  for (uint32_t i = 0; i < other.numNodes(); ++i)
    if (!nodeNamed(g, other.nodeName(NodeId(i))))
      out.gone.push_back(NodeId(i));
  return out;
}

} // namespace isthmus
