#include "passes/cse.h"

#include "passes/rebuild.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/Hashing.h"
#include <unordered_map>

namespace isthmus {
namespace {

// Attributes are compared, not hashed, but for their number: few nodes share op and operands.
size_t hashOf(const Node &n, llvm::ArrayRef<ValueId> operands) {
  llvm::hash_code h = llvm::hash_combine(n.op, n.attrs.size());
  for (ValueId v : operands)
    h = llvm::hash_combine(h, v.index);
  return h;
}

bool sameBits(const Attr &a, const Attr &b) {
  // 0.0 == -0.0, yet they are different attributes.
  return a == b && attrText(a) == attrText(b);
}

bool sameAttrs(const Attrs &a, const Attrs &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto &x, const auto &y) {
    return x.first == y.first && sameBits(x.second, y.second);
  });
}

// Values that are asked for by name.
llvm::BitVector namedValues(const Graph &g) {
  llvm::BitVector named(static_cast<unsigned>(g.numValues()));
  for (ValueId v : g.outputs())
    named.set(v.index);
  if (g.loss)
    named.set(g.loss.index);
  return named;
}

} // namespace

Graph withoutEqualNodes(const Graph &g) {
  llvm::BitVector named = namedValues(g);
  auto mayGo = [&](const Node &n) {
    for (uint32_t i = 0; i < n.numResults; ++i)
      if (named.test(n.result(i).index))
        return false;
    return n.marks.empty() && n.after.empty();
  };

  Rebuilder r(g);
  r.copyInputs();
  std::unordered_multimap<size_t, NodeId> seen; // nodes of the new graph
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.isClone() || n.isBoundary()) {
      r.copyNode(NodeId(i));
      continue;
    }
    llvm::SmallVector<ValueId, 4> operands;
    for (ValueId v : n.operands)
      operands.push_back(r.map(v));
    size_t hash = hashOf(n, operands);
    auto equal = [&](NodeId id) {
      const Node &m = r.to().node(id);
      return m.op == n.op && m.operands == operands && m.device == n.device && m.phase <= n.phase &&
             sameAttrs(m.attrs, n.attrs);
    };
    NodeId first;
    if (mayGo(n)) {
      auto [begin, end] = seen.equal_range(hash);
      for (auto it = begin; it != end; ++it)
        if (equal(it->second) && (!first || it->second < first))
          first = it->second;
    }
    if (first)
      r.setMap(NodeId(i), first);
    else
      seen.emplace(hash, r.copyNode(NodeId(i)));
  }
  return r.finish();
}

} // namespace isthmus
