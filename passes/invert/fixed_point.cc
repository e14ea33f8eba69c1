#include "passes/invert/fixed_point.h"

#include "ir/builder.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kMark = "contraction";

bool mayRunAgain(const Node &n) {
  return n.phase == Phase::Forward && n.op->effect != Effect::Ordered && !n.op->runsOnce;
}

// The nodes before `sum` that lead from `x` to `branch`, in order; none where there is no way.
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

std::vector<ValueId> readsOf(const Graph &g, const FixedPoint &f) {
  std::vector<ValueId> reads;
  for (NodeId id : f.nodes)
    for (ValueId v : g.node(id).operands)
      if (v != f.x && !llvm::is_contained(f.nodes, g.value(v).def) && !llvm::is_contained(reads, v))
        reads.push_back(v);
  return reads;
}

} // namespace

std::vector<FixedPoint> fixedPointsOf(const Graph &g) {
  std::vector<FixedPoint> all;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.op->name != "add" || !n.hasMark(kMark) || n.phase != Phase::Forward ||
        g.type(n.operands[0]) != g.type(n.operands[1]))
      continue;
    for (size_t k : {0, 1}) {
      FixedPoint f{NodeId(i), n.operands[k], n.operands[1 - k], {}, {}};
      f.nodes = nodesBetween(g, f.x, f.branch, f.sum);
      if (f.nodes.empty() ||
          !llvm::all_of(f.nodes, [&](NodeId id) { return mayRunAgain(g.node(id)); }))
        continue;
      f.reads = readsOf(g, f);
      all.push_back(std::move(f));
    }
  }
  return all;
}

ValueId iterate(const FixedPoint &f, size_t iterations, Rebuilder &r) {
  Builder b(r.to(), Phase::Forward);
  const ValueId y = r.map(r.from().node(f.sum).firstResult);
  r.setMap(f.x, y);
  for (size_t i = 0; i < iterations; ++i) {
    for (NodeId id : f.nodes)
      r.copyNode(id);
    r.setMap(f.x, b.sub(y, r.map(f.branch)));
  }
  return r.map(f.x);
}

} // namespace isthmus
