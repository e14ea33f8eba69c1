#include "passes/inspect/same_place.h"

#include <algorithm>

namespace isthmus {
namespace {

std::vector<SamePlace> nodesOfBoth(const Graph &a, const Graph &b) {
  std::vector<SamePlace> out;
  for (uint32_t i = 0; i < a.numNodes(); ++i) {
    const ValueId v = b.find(a.nodeName(NodeId(i)));
    const NodeId in = v ? b.value(v).def : NodeId();
    if (!in || Graph::isReplaced(in) || a.node(NodeId(i)).isStandIn() || b.node(in).isStandIn())
      continue;
    out.push_back({i, in.index});
  }
  return out;
}

} // namespace

// The longest ascending sequence: ends[k] is the pair with the least `b` that ends a sequence of
// k + 1 pairs.
std::vector<SamePlace> ascending(llvm::ArrayRef<SamePlace> pairs) {
  constexpr size_t kNone = ~size_t(0);
  std::vector<size_t> ends, before(pairs.size(), kNone);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto at = std::lower_bound(ends.begin(), ends.end(), pairs[i].b,
                                     [&](size_t e, uint32_t node) { return pairs[e].b < node; });
    if (at != ends.begin())
      before[i] = *(at - 1);
    if (at == ends.end())
      ends.push_back(i);
    else
      *at = i;
  }
  std::vector<SamePlace> out;
  for (size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i])
    out.push_back(pairs[i]);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<SamePlace> samePlaces(const Graph &a, const Graph &b) {
  return ascending(nodesOfBoth(a, b));
}

} // namespace isthmus
