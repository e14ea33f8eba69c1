#include "passes/chunk/region_graph.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

namespace isthmus {
namespace {

// The ops that make gradients which a region reads are taken in if they are no more than this.
constexpr size_t kMostOfGradients = 32;

class Growth {
public:
  Growth(const RegionGraph &g, const RegionOptions &o)
      : g_(g), o_(o), isIn_(unsigned(g.ops.size())), isKept_(unsigned(g.values.size())) {
    for (uint32_t v = 0; v < g.values.size(); ++v)
      if (g.values[v].isKept)
        isKept_.set(v);
  }

  GrownRegion from(uint32_t v, AxisCut cut) {
    cuts_[v] = cut;
    leastBytes_ = int64_t(double(g_.values[v].bytes) * o_.leastShare);
    if (takeIn(v)) {
      grow();
      takeInBetween();
      takeInGradients();
      joinSums();
      isWhole_ = false;
    }
    return finish();
  }

private:
  void grow() {
    for (size_t i = 0; i < open_.size(); ++i)
      if (const uint32_t v = open_[i]; !tryTo([&] { return takeIn(v); }))
        isKept_.set(v); // it stays whole, at the border
  }

  // --- Taking ops in

  // Does something that takes in ops; all of it, or nothing.
  bool tryTo(llvm::function_ref<bool()> take) {
    newOps_.clear();
    newCuts_.clear();
    const int64_t units = units_;
    const size_t numOpen = open_.size(), numParted = parted_.size();
    if (take())
      return true;
    for (uint32_t op : newOps_)
      isIn_.reset(op);
    for (uint32_t v : newCuts_) {
      cuts_.erase(v);
      perChunk_.remove(v);
    }
    numOps_ -= newOps_.size();
    units_ = units;
    open_.resize(numOpen);
    parted_.resize(numParted);
    return false;
  }

  // Takes in the ops that make and read `v`, so that it need not exist whole.
  bool takeIn(uint32_t v) {
    const RegionGraph::Value &value = g_.values[v];
    if (isKept_.test(v) || value.def == RegionGraph::kNone || !take(value.def))
      return false;
    return llvm::all_of(value.readers, [&](uint32_t op) { return take(op); }) && isConsistent();
  }

  // Takes in an op of which a value is cut.
  bool take(uint32_t id) {
    if (isIn_.test(id))
      return true;
    const RegionGraph::Op &op = g_.ops[id];
    const std::optional<CallCuts> cuts =
        op.mayBeCut && numOps_ < o_.mostOps ? cutsOf(id) : std::nullopt;
    if (!cuts) {
      stops_.insert(id);
      return false;
    }
    if (roundsSmallSum(op, *cuts))
      return false;
    isIn_.set(id);
    ++numOps_;
    newOps_.push_back(id);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!cut(op.operands[i], cuts->operands[i], /*isResult=*/false))
        return false;
    for (size_t r = 0; r < op.results.size(); ++r)
      if (!cut(op.results[r], cuts->results[r], /*isResult=*/true))
        return false;
    noteParted(op, *cuts);
    return true;
  }

  // The length of the axis that an op divides into uneven parts.
  void noteParted(const RegionGraph::Op &op, const CallCuts &cuts) {
    if (llvm::none_of(cuts.results, [](const auto &r) { return r && r->isOfParts; }))
      return;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (const auto &of = cuts.operands[i]; of && !of->isOfParts)
        parted_.push_back(g_.values[op.operands[i]].dims[of->cut.axis]);
  }

  // Whether the op is a sum that chunks would round, of values that may as well be whole.
  bool roundsSmallSum(const RegionGraph::Op &op, const CallCuts &cuts) const {
    const bool isSum = llvm::any_of(llvm::seq(0u, uint32_t(op.results.size())),
                                    [&](uint32_t r) { return cuts.isSum(r); });
    return isSum && (!op.goesOn || !cuts.keepsBits) && llvm::all_of(op.operands, [&](uint32_t v) {
             return g_.values[v].bytes < o_.leastSummed;
           });
  }

  // How the op is cut as a value of it is cut; none if no value is, or none may be.
  std::optional<CallCuts> cutsOf(uint32_t id) const {
    const RegionGraph::Op &op = g_.ops[id];
    auto from = [&](uint32_t v, CallPlace place) -> std::optional<CallCuts> {
      auto it = cuts_.find(v);
      return it == cuts_.end() ? std::nullopt : g_.cutsOf(id, place, it->second);
    };
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (auto cuts = from(op.operands[i], {CallPlace::Operand, i}))
        return cuts;
    for (size_t r = 0; r < op.results.size(); ++r)
      if (auto cuts = from(op.results[r], {CallPlace::Result, r}))
        return cuts;
    return std::nullopt;
  }

  // Cuts a value as an op wants it. A value that is cut elsewhere in another way, or that the op
  // needs whole although the region makes it in chunks, is a contradiction.
  bool cut(uint32_t v, const std::optional<CallCuts::Of> &wanted, bool isResult) {
    auto it = cuts_.find(v);
    if (!wanted)
      return isResult ? g_.values[v].isFloat : it == cuts_.end();
    if (it != cuts_.end() && it->second != wanted->cut)
      return false;
    if (it == cuts_.end()) {
      cuts_[v] = wanted->cut;
      newCuts_.push_back(v);
      if (g_.values[v].bytes >= leastBytes_ && g_.values[v].def != RegionGraph::kNone)
        open_.push_back(v);
    }
    if (wanted->isOfParts && wanted->places != o_.unevenParts)
      return false;
    if (wanted->places == o_.unevenParts && wanted->places > 0) {
      perChunk_.insert(v);
      return true;
    }
    units_ = std::gcd(units_, wanted->places);
    return units_ > 1;
  }

  // Whether every op of the region is consistent, if those were before that nothing new touches.
  bool isConsistent() const {
    auto isOpConsistent = [&](uint32_t id) { return isConsistent(id); };
    for (uint32_t id : newOps_) {
      if (!isConsistent(id))
        return false;
      for (uint32_t v : g_.ops[id].results)
        if (!llvm::all_of(g_.values[v].readers, isOpConsistent))
          return false;
    }
    return llvm::all_of(newCuts_, [&](uint32_t v) {
      const RegionGraph::Value &value = g_.values[v];
      return (value.def == RegionGraph::kNone || isConsistent(value.def)) &&
             llvm::all_of(value.readers, isOpConsistent);
    });
  }

  // Whether the op, if it is of the region, reads values that the region makes as it makes them:
  // cut in one way, and no sum, which is not complete before the last chunk.
  bool isConsistent(uint32_t id) const {
    if (!isIn_.test(id))
      return true;
    const RegionGraph::Op &op = g_.ops[id];
    const std::optional<CallCuts> cuts = cutsOf(id);
    auto isAsWanted = [&](uint32_t v, const std::optional<CallCuts::Of> &wanted) {
      auto it = cuts_.find(v);
      return it == cuts_.end() ? !wanted : wanted && wanted->cut == it->second;
    };
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const uint32_t v = op.operands[i];
      const bool isCut = cuts_.count(v) > 0;
      if ((makes(v) && !isCut) || (isCut && !isAsWanted(v, cuts->operands[i])))
        return false;
    }
    return llvm::all_of(llvm::seq<size_t>(0, op.results.size()), [&](size_t r) {
      return isAsWanted(op.results[r], cuts->results[r]);
    });
  }

  bool makes(uint32_t v) const {
    return g_.values[v].def != RegionGraph::kNone && isIn_.test(g_.values[v].def);
  }

  // --- What lies between

  // Takes in ops that read what the region makes, and on which others of its ops depend, such as
  // those between a small result of the forward and the region's backward. The region need not
  // stop for them then.
  void takeInBetween() {
    llvm::BitVector isTried(unsigned(g_.values.size()));
    for (bool found = true; found;) {
      found = false;
      const llvm::BitVector between = opsBetween();
      for (uint32_t v = 0; v < g_.values.size(); ++v) {
        auto isBetween = [&](uint32_t op) { return between.test(op); };
        if (isTried.test(v) || !cuts_.count(v) || !makes(v) ||
            llvm::none_of(g_.values[v].readers, isBetween))
          continue;
        isTried.set(v);
        found = true;
        const size_t numOpen = open_.size();
        tryTo([&] {
          return llvm::all_of(g_.values[v].readers,
                              [&](uint32_t op) { return !isBetween(op) || take(op); }) &&
                 isConsistent();
        });
        open_.resize(numOpen);
      }
    }
  }

  // The ops outside of the region that depend on it and on which it depends.
  llvm::BitVector opsBetween() const {
    const unsigned numOps = unsigned(g_.ops.size());
    llvm::BitVector after(numOps), before(numOps);
    for (uint32_t id = 0; id < numOps; ++id)
      if (llvm::any_of(g_.ops[id].operands, [&](uint32_t v) {
            return makes(v) ||
                   (g_.values[v].def != RegionGraph::kNone && after.test(g_.values[v].def));
          }))
        after.set(id);
    for (uint32_t id = numOps; id-- > 0;)
      if (llvm::any_of(g_.ops[id].results, [&](uint32_t v) {
            return llvm::any_of(g_.values[v].readers,
                                [&](uint32_t op) { return isIn_.test(op) || before.test(op); });
          }))
        before.set(id);
    after &= before;
    after.reset(isIn_);
    return after;
  }

  // Takes in the ops that make the late values which the region reads, up to numbers such as the
  // gradient of the loss, if they are few.
  void takeInGradients() {
    const size_t most = numOps_ + kMostOfGradients;
    tryTo([&] {
      for (;;) {
        const std::optional<uint32_t> v = lateOperand();
        if (!v)
          return true;
        if (numOps_ > most || !cuts_.count(*v) || g_.values[*v].def == RegionGraph::kNone ||
            !take(g_.values[*v].def) || !isConsistent())
          return false;
      }
    });
  }
  // The first late value that the region reads and does not make, and that is no number.
  std::optional<uint32_t> lateOperand() const {
    for (unsigned id : isIn_.set_bits())
      for (uint32_t v : g_.ops[id].operands)
        if (g_.values[v].isLate && !makes(v) &&
            llvm::any_of(g_.values[v].dims, [](int64_t d) { return d != 1; }))
          return v;
    return std::nullopt;
  }

  // --- Sums that are added to each other

  // Takes the ops in that add up sums of the region.
  void joinSums() {
    for (uint32_t id = 0; id < g_.ops.size(); ++id) {
      const RegionGraph::Op &op = g_.ops[id];
      if (!op.isAddition || op.operands[0] == op.operands[1] ||
          !llvm::all_of(op.operands, [&](uint32_t v) { return isPartOfSum(v, op); }))
        continue;
      for (uint32_t v : op.operands)
        totals_[v] = op.results[0];
      totals_[op.results[0]] = op.results[0];
      isIn_.set(id);
    }
    for (auto &[v, total] : totals_) // the last of them
      while (totals_.lookup(total) != total)
        total = totals_.lookup(total);
  }
  // Whether the value is a sum of the region, or made by an op that adds such sums, and nothing
  // else reads it.
  bool isPartOfSum(uint32_t v, const RegionGraph::Op &reader) const {
    const RegionGraph::Value &value = g_.values[v];
    if (!makes(v) || isKept_.test(v) || value.readers.size() != 1 ||
        g_.ops[value.def].device != reader.device)
      return false;
    return totals_.count(v) > 0 || (!cuts_.count(v) && isSum(v));
  }
  bool isSum(uint32_t v) const {
    const std::optional<CallCuts> cuts = cutsOf(g_.values[v].def);
    const auto &results = g_.ops[g_.values[v].def].results;
    return cuts && cuts->isSum(uint32_t(llvm::find(results, v) - results.begin()));
  }

  GrownRegion finish() {
    GrownRegion region;
    region.isWhole = isWhole_;
    for (unsigned id : isIn_.set_bits())
      region.ops.push_back(id);
    region.cuts = std::move(cuts_);
    region.units = units_;
    region.perChunk.append(perChunk_.begin(), perChunk_.end());
    region.parted = std::move(parted_);
    region.totals = std::move(totals_);
    region.stops.assign(stops_.begin(), stops_.end());
    return region;
  }

  const RegionGraph &g_;
  const RegionOptions &o_;
  llvm::BitVector isIn_; // by op
  llvm::DenseMap<uint32_t, AxisCut> cuts_;
  llvm::SetVector<uint32_t> perChunk_;
  int64_t units_ = 0;
  size_t numOps_ = 0;
  bool isWhole_ = true;
  std::vector<uint32_t> open_; // cut values that are large; those before the current one are done
  // Since `tryTo` began.
  std::vector<uint32_t> newOps_, newCuts_;
  llvm::BitVector isKept_; // by value
  std::vector<int64_t> parted_;
  llvm::DenseMap<uint32_t, uint32_t> totals_; // GrownRegion::totals
  llvm::SetVector<uint32_t> stops_;
  int64_t leastBytes_ = 0;
};

} // namespace

uint32_t RegionGraph::addOp(Op op) {
  const auto id = uint32_t(ops.size());
  for (uint32_t v : op.operands)
    if (auto &readers = values[v].readers; readers.empty() || readers.back() != id)
      readers.push_back(id);
  for (uint32_t v : op.results)
    values[v].def = id;
  ops.push_back(std::move(op));
  return id;
}

namespace {

// The places of an op, and their values.
llvm::SmallVector<std::pair<CallPlace, uint32_t>, 6> placesOf(const RegionGraph::Op &op) {
  llvm::SmallVector<std::pair<CallPlace, uint32_t>, 6> places;
  for (size_t i = 0; i < op.operands.size(); ++i)
    places.push_back({{CallPlace::Operand, i}, op.operands[i]});
  for (size_t r = 0; r < op.results.size(); ++r)
    places.push_back({{CallPlace::Result, r}, op.results[r]});
  return places;
}

// Adds how `v` is cut where another value of the op is cut along one of its axes.
void addCutsByOp(const RegionGraph &g, uint32_t id, uint32_t v, std::vector<AxisCut> &cuts) {
  const auto places = placesOf(g.ops[id]);
  for (const auto &[from, other] : places)
    for (uint32_t axis = 0; other != v && axis < uint32_t(g.values[other].dims.size()); ++axis) {
      const std::optional<CallCuts> all = g.cutsOf(id, from, {axis});
      for (const auto &[place, value] : places)
        if (const CallCuts::Of *of = all && value == v ? all->at(place) : nullptr;
            of && !llvm::is_contained(cuts, of->cut))
          cuts.push_back(of->cut);
    }
}

} // namespace

std::vector<AxisCut> cutsToGrowFrom(const RegionGraph &g, uint32_t v) {
  const RegionGraph::Value &value = g.values[v];
  std::vector<AxisCut> cuts;
  for (uint32_t axis = 0; axis < uint32_t(value.dims.size()); ++axis)
    if (value.dims[axis] > 1)
      cuts.push_back({axis});
  if (value.def != RegionGraph::kNone)
    addCutsByOp(g, value.def, v, cuts);
  for (uint32_t id : value.readers)
    addCutsByOp(g, id, v, cuts);
  return cuts;
}

GrownRegion grownRegion(const RegionGraph &g, uint32_t v, AxisCut cut, const RegionOptions &o) {
  return Growth(g, o).from(v, cut);
}

} // namespace isthmus
