#include "ir/fixed_point.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kMark = "contraction";

bool mayRunAgain(const Node &n) {
  return n.phase == Phase::Forward && n.op->effect == Effect::Pure && !n.op->runsOnce;
}

// The nodes before `sum` on paths from `x` to `branch`, in order; empty if there is no path.
std::vector<NodeId> nodesBetween(const Graph &g, ValueId x, ValueId branch, NodeId sum) {
  const uint32_t first = g.value(x).def ? g.value(x).def.index + 1 : 0;
  const uint32_t count = sum.index - std::min(first, sum.index);
  std::vector<bool> depends(count), leads(count);
  auto place = [&](ValueId v) -> std::optional<uint32_t> {
    const NodeId def = g.value(v).def;
    if (!def || def.index < first || !(def < sum))
      return std::nullopt;
    return def.index - first;
  };
  for (uint32_t i = 0; i < count; ++i)
    depends[i] = llvm::any_of(g.node(NodeId(first + i)).operands, [&](ValueId v) {
      auto at = place(v);
      return v == x || (at && depends[*at]);
    });
  if (auto at = place(branch))
    leads[*at] = true;
  std::vector<NodeId> found;
  for (uint32_t i = count; i-- > 0;) {
    if (!leads[i] || !depends[i])
      continue;
    found.push_back(NodeId(first + i));
    for (ValueId v : g.node(NodeId(first + i)).operands)
      if (auto at = place(v))
        leads[*at] = true;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

} // namespace

std::vector<FixedPoint> fixedPointsOf(const Graph &g, NodeId sum) {
  std::vector<FixedPoint> found;
  const Node &n = g.node(sum);
  if (n.op->name != "add" || !n.hasMark(kMark) || n.phase != Phase::Forward ||
      g.type(n.operands[0]) != g.type(n.operands[1]))
    return found;
  for (uint32_t k : {0, 1}) {
    FixedPoint f{sum, k, nodesBetween(g, n.operands[k], n.operands[1 - k], sum)};
    if (!f.nodes.empty() &&
        llvm::all_of(f.nodes, [&](NodeId id) { return mayRunAgain(g.node(id)); }))
      found.push_back(std::move(f));
  }
  return found;
}

} // namespace isthmus
