#include "passes/chunk/region.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <numeric>

namespace isthmus {
namespace {

class Growth {
public:
  Growth(const Graph &g, const Uses &uses, const RegionOptions &o) : g_(g), uses_(uses), o_(o) {
    for (ValueId v : g.outputs())
      isKept_[v] = true;
    if (g.loss)
      isKept_[g.loss] = true;
  }

  std::optional<ChunkRegion> from(ValueId v, AxisCut cut) {
    now_.cuts[v] = cut;
    leastBytes_ = int64_t(double(g_.type(v).bytes()) * o_.leastShare);
    if (!takeIn(v))
      return std::nullopt;
    for (size_t i = 0; i < open_.size(); ++i) { // it grows
      const ValueId next = open_[i];
      newNodes_.clear();
      newCuts_.clear();
      const int64_t units = now_.units;
      const size_t numOpen = open_.size();
      if (takeIn(next))
        continue;
      for (NodeId n : newNodes_) // it stays whole, at the border
        now_.nodes.erase(n);
      for (ValueId cut : newCuts_) {
        now_.cuts.erase(cut);
        now_.isPerChunk.erase(cut);
      }
      now_.units = units;
      open_.resize(numOpen);
      isKept_[next] = true;
    }
    return finish();
  }

private:
  struct Region {
    llvm::DenseMap<NodeId, char> nodes;
    llvm::DenseMap<ValueId, AxisCut> cuts;
    llvm::DenseMap<ValueId, char> isPerChunk;
    int64_t units = 0;
  };

  // Takes the nodes that make and read `v` into the region, so that it need not exist whole.
  bool takeIn(ValueId v) {
    if (isKept_.lookup(v))
      return false;
    const NodeId def = g_.value(v).def;
    if (!def || !take(def))
      return false;
    return llvm::all_of(uses_.of(v), [&](NodeId reader) { return take(reader); }) && isConsistent();
  }

  bool mayTake(const Node &n) const {
    return n.op->effect != Effect::Ordered && !n.op->runsOnce && !n.isStandIn() &&
           n.phase != Phase::Update && now_.nodes.size() < o_.mostNodes;
  }

  // Takes a node of which one operand or result is cut.
  bool take(NodeId id) {
    if (now_.nodes.count(id))
      return true;
    const Node &n = g_.node(id);
    if (!mayTake(n))
      return false;
    const std::optional<CallCuts> cuts = cutsOfNode(id);
    if (!cuts || roundsSmallSum(n, *cuts))
      return false;
    now_.nodes[id] = true;
    newNodes_.push_back(id);
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (!cut(n.operands[i], cuts->operands[i], /*isResult=*/false))
        return false;
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (!cut(n.result(r), cuts->results[r], /*isResult=*/true))
        return false;
    noteParted(n, *cuts);
    return true;
  }

  // The length of the axis that a node divides into uneven parts.
  void noteParted(const Node &n, const CallCuts &cuts) {
    if (llvm::none_of(cuts.results, [](const auto &r) { return r && r->isOfParts; }))
      return;
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (const auto &of = cuts.operands[i]; of && !of->isOfParts)
        parted_.push_back(g_.type(n.operands[i]).dims[of->cut.axis]);
  }

  // Whether the node is a sum that chunks would round, of values that may as well be whole.
  bool roundsSmallSum(const Node &n, const CallCuts &cuts) const {
    const bool isSum =
        llvm::any_of(llvm::seq(0u, n.numResults), [&](uint32_t r) { return cuts.isSum(r); });
    return isSum && (n.op->accumulation.op.empty() || !cuts.keepsBits) &&
           llvm::all_of(n.operands, [&](ValueId v) { return g_.type(v).bytes() < o_.leastSummed; });
  }

  // How the node is cut as a value of it is cut; none if no value is, or none may be.
  std::optional<CallCuts> cutsOfNode(NodeId id) const {
    const Node &n = g_.node(id);
    const OpCall call = g_.call(id);
    auto from = [&](ValueId v, CallPlace place) -> std::optional<CallCuts> {
      auto it = now_.cuts.find(v);
      return it == now_.cuts.end() ? std::nullopt : cutsOf(call, place, it->second);
    };
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (auto cuts = from(n.operands[i], {CallPlace::Operand, i}))
        return cuts;
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (auto cuts = from(n.result(r), {CallPlace::Result, r}))
        return cuts;
    return std::nullopt;
  }

  // Cuts a value as a node wants it. A value that is cut elsewhere in another way, or that the node
  // needs whole although the region makes it in chunks, is a contradiction.
  bool cut(ValueId v, const std::optional<CallCuts::Of> &wanted, bool isResult) {
    auto it = now_.cuts.find(v);
    if (!wanted)
      return isResult ? isFloat(g_.type(v).dtype) : it == now_.cuts.end();
    if (it != now_.cuts.end() && it->second != wanted->cut)
      return false;
    if (it == now_.cuts.end()) {
      now_.cuts[v] = wanted->cut;
      newCuts_.push_back(v);
      if (g_.type(v).bytes() >= leastBytes_ && g_.value(v).def)
        open_.push_back(v);
    }
    if (wanted->isOfParts && wanted->places != o_.unevenParts)
      return false;
    if (wanted->places == o_.unevenParts && wanted->places > 0) {
      now_.isPerChunk[v] = true;
      return true;
    }
    now_.units = std::gcd(now_.units, wanted->places);
    return now_.units > 1;
  }

  // Whether every node of the region is consistent, if those were before which nothing new touches.
  bool isConsistent() const {
    auto readersAre = [&](ValueId v) {
      return llvm::all_of(uses_.of(v), [&](NodeId reader) { return isConsistent(reader); });
    };
    for (NodeId id : newNodes_) {
      if (!isConsistent(id))
        return false;
      for (uint32_t r = 0; r < g_.node(id).numResults; ++r)
        if (!readersAre(g_.node(id).result(r)))
          return false;
    }
    return llvm::all_of(newCuts_, [&](ValueId v) {
      const NodeId def = g_.value(v).def;
      return (!def || isConsistent(def)) && readersAre(v);
    });
  }

  // Whether the node, if it is of the region, reads values that the region makes as it makes them:
  // cut in one way, and no sum, which is not complete before the last chunk.
  bool isConsistent(NodeId id) const {
    if (!now_.nodes.count(id))
      return true;
    const Node &n = g_.node(id);
    const std::optional<CallCuts> cuts = cutsOfNode(id);
    auto isAsWanted = [&](ValueId v, const std::optional<CallCuts::Of> &wanted) {
      auto it = now_.cuts.find(v);
      return it == now_.cuts.end() ? !wanted : wanted && wanted->cut == it->second;
    };
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const ValueId v = n.operands[i];
      const NodeId def = g_.value(v).def;
      const bool isMade = def && now_.nodes.count(def), isCut = now_.cuts.count(v) > 0;
      if ((isMade && !isCut) || (isCut && !isAsWanted(v, cuts->operands[i])))
        return false;
    }
    return llvm::all_of(llvm::seq(0u, n.numResults),
                        [&](uint32_t r) { return isAsWanted(n.result(r), cuts->results[r]); });
  }

  // --- Sums that are added to each other

  // Whether the value is made by the region, or by a node that adds sums of it, and is only read by
  // one node.
  bool isPartOfSum(ValueId v, NodeId reader) const {
    const NodeId def = g_.value(v).def;
    if (!def || isKept_.lookup(v) || uses_.of(v).size() != 1 ||
        g_.node(def).device != g_.node(reader).device)
      return false;
    return totals_.count(v) > 0 || (now_.nodes.count(def) && !now_.cuts.count(v) && isSum(v));
  }
  bool isSum(ValueId v) const {
    const std::optional<CallCuts> cuts = cutsOfNode(g_.value(v).def);
    return cuts && cuts->isSum(g_.value(v).resultIndex);
  }

  // Takes the nodes in that add up sums of the region.
  void joinSums() {
    const size_t numNodes = g_.numNodes();
    for (uint32_t i = now_.nodes.empty() ? uint32_t(numNodes) : 0; i < numNodes; ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.op->name != "add" || n.isStandIn() || n.phase == Phase::Update ||
          n.operands[0] == n.operands[1] ||
          !llvm::all_of(n.operands, [&](ValueId v) {
            return g_.type(v) == g_.type(n.firstResult) && isPartOfSum(v, NodeId(i));
          }))
        continue;
      for (ValueId v : n.operands)
        totals_[v] = n.firstResult;
      totals_[n.firstResult] = n.firstResult;
      now_.nodes[NodeId(i)] = true;
    }
    for (auto &[v, total] : totals_) // the last of them
      while (totals_.lookup(total) != total)
        total = totals_.lookup(total);
  }

  ChunkRegion finish() {
    joinSums();
    ChunkRegion region;
    region.totals = totals_;
    region.cuts = now_.cuts;
    region.isPerChunk = now_.isPerChunk;
    region.parted = parted_;
    region.isIn = now_.nodes;
    region.units = now_.units;
    for (const auto &entry : now_.nodes)
      region.nodes.push_back(entry.first);
    llvm::sort(region.nodes);
    return region;
  }

  const Graph &g_;
  const Uses &uses_;
  const RegionOptions &o_;
  Region now_;
  std::vector<ValueId> open_; // cut values that are large; those before the current one are done
  // Since the last value was taken in.
  std::vector<NodeId> newNodes_;
  std::vector<ValueId> newCuts_;
  llvm::DenseMap<ValueId, bool> isKept_;
  std::vector<int64_t> parted_;
  llvm::DenseMap<ValueId, ValueId> totals_; // ChunkRegion::totals
  int64_t leastBytes_ = 0;
};

} // namespace

std::optional<ChunkRegion> growRegion(const Graph &g, const Uses &uses, ValueId v, AxisCut cut,
                                      const RegionOptions &o) {
  return Growth(g, uses, o).from(v, cut);
}

} // namespace isthmus
