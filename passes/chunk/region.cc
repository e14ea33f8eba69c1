#include "passes/chunk/region.h"

#include "ir/factors.h"
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

  std::optional<ChunkRegion> from(ValueId v, uint32_t axis) {
    now_.axes[v] = axis;
    leastBytes_ = int64_t(double(g_.type(v).bytes()) * o_.leastShare);
    if (!takeIn(v))
      return std::nullopt;
    for (size_t i = 0; i < open_.size(); ++i) { // it grows
      const ValueId next = open_[i];
      newNodes_.clear();
      newAxes_.clear();
      const int64_t units = now_.units;
      const size_t numOpen = open_.size();
      if (takeIn(next))
        continue;
      for (NodeId n : newNodes_) // it stays whole, at the border
        now_.nodes.erase(n);
      for (ValueId cut : newAxes_) {
        now_.axes.erase(cut);
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
    llvm::DenseMap<ValueId, uint32_t> axes;
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
           n.phase != Phase::Update && !n.operands.empty() && now_.nodes.size() < o_.mostNodes;
  }

  // Takes a node of which one operand or result is cut.
  bool take(NodeId id) {
    if (now_.nodes.count(id))
      return true;
    const Node &n = g_.node(id);
    if (!mayTake(n))
      return false;
    const OpCall call = g_.call(id);
    const Factors f = factorsOf(call);
    const std::optional<uint32_t> factor = factorThatIsCut(n, f);
    if (!factor)
      return false;
    if (roundsSmallSum(n, f, *factor))
      return false;
    now_.nodes[id] = true;
    newNodes_.push_back(id);
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (!cut(n.operands[i], f.operands[i], *factor, /*isResult=*/false))
        return false;
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (!cut(n.result(r), f.results[r], *factor, /*isResult=*/true))
        return false;
    noteParted(n, f, *factor);
    return true;
  }

  // The length of the axis that a node divides into uneven parts.
  void noteParted(const Node &n, const Factors &f, uint32_t factor) {
    auto isOfParts = [&](const Factors::Axes &axes) {
      const auto axis = Factors::axisOf(axes, factor);
      return axis && axes[*axis].isOfParts;
    };
    if (!llvm::any_of(f.results, isOfParts))
      return;
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (const auto axis = Factors::axisOf(f.operands[i], factor);
          axis && !isOfParts(f.operands[i]))
        parted_.push_back(g_.type(n.operands[i]).dims[*axis]);
  }

  // Whether the node is a sum that chunks would round, of values that may as well be whole.
  bool roundsSmallSum(const Node &n, const Factors &f, uint32_t factor) const {
    const bool isSum =
        llvm::any_of(llvm::seq(0u, n.numResults), [&](uint32_t r) { return f.isSum(r, factor); });
    return isSum && n.op->accumulation.op.empty() &&
           llvm::all_of(n.operands, [&](ValueId v) { return g_.type(v).bytes() < o_.leastSummed; });
  }

  std::optional<uint32_t> factorThatIsCut(const Node &n, const Factors &f) const {
    auto at = [&](ValueId v, const Factors::Axes &axes) -> std::optional<uint32_t> {
      auto it = now_.axes.find(v);
      if (it == now_.axes.end())
        return std::nullopt;
      const uint32_t factor = axes[it->second].factor;
      return factor == Factors::kWhole ? std::nullopt : std::optional<uint32_t>(factor);
    };
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (auto factor = at(n.operands[i], f.operands[i]))
        return factor;
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (auto factor = at(n.result(r), f.results[r]))
        return factor;
    return std::nullopt;
  }

  // Cuts a value where it has the factor. A value that is cut elsewhere in another way, or that the
  // node needs whole although the region makes it in chunks, is a contradiction.
  bool cut(ValueId v, const Factors::Axes &axes, uint32_t factor, bool isResult) {
    const std::optional<size_t> axis = Factors::axisOf(axes, factor);
    auto it = now_.axes.find(v);
    if (!axis)
      return isResult ? isFloat(g_.type(v).dtype) : it == now_.axes.end();
    if (it != now_.axes.end() && it->second != *axis)
      return false;
    if (it == now_.axes.end()) {
      now_.axes[v] = uint32_t(*axis);
      newAxes_.push_back(v);
      if (g_.type(v).bytes() >= leastBytes_ && g_.value(v).def)
        open_.push_back(v);
    }
    const int64_t units = g_.type(v).dims[*axis] / axes[*axis].block;
    if (axes[*axis].isOfParts && units != o_.unevenParts)
      return false;
    if (units == o_.unevenParts && units > 0) {
      now_.isPerChunk[v] = true;
      return true;
    }
    now_.units = std::gcd(now_.units, units);
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
    return llvm::all_of(newAxes_, [&](ValueId v) {
      const NodeId def = g_.value(v).def;
      return (!def || isConsistent(def)) && readersAre(v);
    });
  }

  // Whether the node, if it is of the region, reads values that the region makes as it makes them:
  // cut along one axis, and no sum, which is not complete before the last chunk.
  bool isConsistent(NodeId id) const {
    if (!now_.nodes.count(id))
      return true;
    const Node &n = g_.node(id);
    const Factors f = factorsOf(g_.call(id));
    const std::optional<uint32_t> factor = factorThatIsCut(n, f);
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const ValueId v = n.operands[i];
      const NodeId def = g_.value(v).def;
      auto it = now_.axes.find(v);
      const bool isMade = def && now_.nodes.count(def), isCut = it != now_.axes.end();
      const std::optional<size_t> axis = Factors::axisOf(f.operands[i], *factor);
      if ((isMade && !isCut) || (isCut && axis != std::optional<size_t>(it->second)))
        return false;
    }
    for (uint32_t r = 0; r < n.numResults; ++r) {
      auto it = now_.axes.find(n.result(r));
      const std::optional<size_t> axis = Factors::axisOf(f.results[r], *factor);
      if (it == now_.axes.end() ? axis.has_value() : axis != std::optional<size_t>(it->second))
        return false;
    }
    return true;
  }

  ChunkRegion finish() const {
    ChunkRegion region;
    region.axes = now_.axes;
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
  std::vector<ValueId> newAxes_;
  llvm::DenseMap<ValueId, bool> isKept_;
  std::vector<int64_t> parted_;
  int64_t leastBytes_ = 0;
};

} // namespace

std::optional<ChunkRegion> growRegion(const Graph &g, const Uses &uses, ValueId v, uint32_t axis,
                                      const RegionOptions &o) {
  return Growth(g, uses, o).from(v, axis);
}

} // namespace isthmus
