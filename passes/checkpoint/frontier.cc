#include "passes/checkpoint/frontier.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace isthmus {
namespace {

class Frontiers {
public:
  Frontiers(const Graph &g, llvm::ArrayRef<ValueId> roots, const std::vector<bool> &isForward)
      : g_(g), roots_(roots), lastRead_(g.numValues(), 0) {
    for (uint32_t i = 0; i < g.numNodes(); ++i) {
      const Node &n = g.node(NodeId(i));
      if (n.phase == Phase::Backward && !isForward[i])
        break;
      order_.push_back(NodeId(i));
      for (ValueId v : n.operands)
        if (isForward[i])
          lastRead_[roots[v.index].index] = i;
    }
    measure();
  }

  // The cuts for `pieces` segments: near each even share of the bytes, within half a share, the cut
  // with the smallest frontier.
  std::vector<size_t> cuts(size_t pieces) const {
    std::vector<size_t> out;
    double total = made_.empty() ? 0 : double(made_.back());
    for (size_t k = 1; k < pieces; ++k) {
      double middle = total * double(k) / double(pieces), half = total / double(pieces) / 2;
      auto isBelow = [&](int64_t made) { return double(made) < middle - half; };
      size_t i = size_t(llvm::partition_point(made_, isBelow) - made_.begin());
      size_t best = SIZE_MAX;
      for (; i + 1 < made_.size() && double(made_[i]) <= middle + half; ++i)
        if (best == SIZE_MAX || crossing_[i] < crossing_[best])
          best = i;
      if (best != SIZE_MAX && (out.empty() || best > out.back()))
        out.push_back(best);
    }
    return out;
  }

  std::vector<ValueId> frontier(llvm::ArrayRef<size_t> cuts) const {
    std::vector<ValueId> out;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node &n = g_.node(order_[i]);
      for (uint32_t r = 0; r < n.numResults; ++r) {
        ValueId v = n.result(r);
        auto cut = std::lower_bound(cuts.begin(), cuts.end(), i);
        if (roots_[v.index] == v && cut != cuts.end() && lastRead_[v.index] > order_[*cut].index)
          out.push_back(v);
      }
    }
    return out; // sorted, because ids rise with the order
  }

  size_t size() const { return order_.size(); }

private:
  // Computes the bytes made up to each node, and the bytes that cross the cut after it.
  void measure() {
    std::vector<int64_t> change(order_.size() + 2, 0);
    int64_t made = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node &n = g_.node(order_[i]);
      for (uint32_t r = 0; r < n.numResults; ++r) {
        ValueId v = n.result(r);
        if (roots_[v.index] != v)
          continue;
        int64_t bytes = g_.type(v).bytes();
        made += bytes;
        if (lastRead_[v.index] > order_[i].index) {
          change[i] += bytes;
          change[std::min<size_t>(lastRead_[v.index], order_.size())] -=
              bytes; // node ids are positions in order_
        }
      }
      made_.push_back(made);
    }
    int64_t live = 0;
    for (size_t i = 0; i < order_.size(); ++i)
      crossing_.push_back(live += change[i]);
  }

  const Graph &g_;
  llvm::ArrayRef<ValueId> roots_;
  std::vector<NodeId> order_;            // the nodes before the first backward one
  std::vector<uint32_t> lastRead_;       // by root: the last forward node that reads it
  std::vector<int64_t> made_, crossing_; // `made_` never falls
};

} // namespace

std::vector<std::vector<ValueId>> frontierCuts(const Graph &g, llvm::ArrayRef<ValueId> roots,
                                               const std::vector<bool> &isForward) {
  Frontiers f(g, roots, isForward);
  std::vector<std::vector<ValueId>> out;
  const size_t most = std::min(static_cast<size_t>(3 * std::sqrt(double(f.size()))) + 2, f.size());
  // Every number of segments up to 40, then steps of a twentieth.
  for (size_t pieces = 2; pieces <= most; pieces += std::max<size_t>(1, pieces / 20))
    out.push_back(f.frontier(f.cuts(pieces)));
  return out;
}

} // namespace isthmus
