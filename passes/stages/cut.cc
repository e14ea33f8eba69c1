#include "passes/stages/cut.h"

#include "ir/spelling.h"
#include "passes/names.h"
#include "passes/stages/cut_bound.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <deque>
#include <numeric>

namespace isthmus {
namespace {

class Cutting {
public:
  Cutting(const Graph &g, const Target &t, const CutOptions &o)
      : g_(g), t_(t), o_(o), speeds_(overTheirMean(o.speeds)),
        aims_(o.shares.empty() ? speeds_ : overTheirMean(o.shares)), place_(g.numNodes(), 0) {}

  llvm::Expected<Cut> run() {
    placeForward();
    findSeeds();
    placeBackward();
    placeSeeds();
    addUpCosts();
    if (numPlaces_ < o_.stages)
      return makeError("{0} stages were asked for, but the graph has {1} forward nodes to divide "
                       "among them",
                       o_.stages, numPlaces_);
    auto ends = o_.ends.empty() ? llvm::Expected<std::vector<uint32_t>>(bestEnds()) : namedEnds();
    if (!ends)
      return ends.takeError();
    return cutAt(*ends);
  }

private:
  std::vector<double> overTheirMean(std::vector<double> of) const {
    if (of.empty())
      return std::vector<double>(o_.stages, 1.0);
    const double mean = std::accumulate(of.begin(), of.end(), 0.0) / double(of.size());
    for (double &x : of)
      x /= mean;
    return of;
  }

  // --- Places in the forward order

  // Forward nodes are numbered in order. One that depends on no input of kind `input` and draws
  // nothing, such as a cast of a parameter, goes with its first reader.
  void placeForward() {
    std::vector<bool> follows(g_.numValues(), true); // by value: goes with its reader
    for (const Input &i : g_.inputs())
      follows[i.value.index] = i.kind != InputKind::Input;
    std::vector<bool> nodeFollows(g_.numNodes(), false);
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase != Phase::Forward)
        continue;
      nodeFollows[i] = n.op->effect == Effect::Pure &&
                       llvm::all_of(n.operands, [&](ValueId v) { return follows[v.index]; });
      for (uint32_t r = 0; r < n.numResults; ++r)
        follows[n.result(r).index] = nodeFollows[i];
      if (!nodeFollows[i])
        place_[i] = numPlaces_++;
    }
    std::vector<uint32_t> first(g_.numValues(), kNone); // by value: its first forward reader's
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase != Phase::Forward)
        continue;
      if (nodeFollows[i]) {
        uint32_t least = kNone;
        for (uint32_t r = 0; r < n.numResults; ++r)
          least = std::min(least, first[n.result(r).index]);
        place_[i] = least == kNone ? 0 : least;
      }
      for (ValueId v : n.operands) {
        first[v.index] = std::min(first[v.index], place_[i]);
        if (!g_.value(v).def)
          readers_[v].push_back(place_[i]);
      }
    }
    firstReader_ = std::move(first);
  }

  // The last place, up to `limit`, at which the forward pass reads the input; none if there is
  // none. (A weight that is tied has several: the backward pass meets the last one first.)
  std::optional<uint32_t> lastReader(ValueId input, uint32_t limit) const {
    std::optional<uint32_t> last;
    if (const auto it = readers_.find(input); it != readers_.end())
      for (uint32_t place : it->second)
        if (place <= limit && (!last || place > *last))
          last = place;
    return last;
  }

  bool isForward(NodeId n) const { return n && g_.node(n).phase == Phase::Forward; }

  // The last place of a parameter whose gradient, or next value, needs each value.
  std::vector<uint32_t> lastNeeds() const {
    std::vector<uint32_t> last(g_.numValues(), 0);
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      const OutputRole &role = g_.role(i);
      if (role.kind != OutputKind::Result && !g_.value(role.of).def &&
          firstReader_[role.of.index] != kNone)
        last[g_.outputs()[i].index] = firstReader_[role.of.index];
    }
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase == Phase::Forward)
        continue;
      uint32_t most = 0;
      for (uint32_t r = 0; r < n.numResults; ++r)
        most = std::max(most, last[n.result(r).index]);
      if (n.phase == Phase::Update) // it is where its parameter is
        for (ValueId v : n.operands)
          if (!g_.value(v).def && firstReader_[v.index] != kNone)
            most = std::max(most, firstReader_[v.index]);
      for (ValueId v : n.operands)
        last[v.index] = std::max(last[v.index], most);
    }
    return last;
  }

  // A seed is a node that depends on no forward node and no weight, such as the gradient that all
  // begins with, if it does not say of whose gradient it is. It is where it is read first.
  bool isSeed(NodeId id) const { return isSeed_[id.index]; }

  void findSeeds() {
    isSeed_.assign(g_.numNodes(), false);
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      isSeed_[i] = n.phase != Phase::Forward && !n.from.gradientOf &&
                   llvm::all_of(n.operands, [&](ValueId v) {
                     const NodeId def = g_.value(v).def;
                     return def ? isSeed_[def.index] : !isWeight(v);
                   });
    }
  }

  // Whether the value is a parameter or a state that the forward pass reads.
  bool isWeight(ValueId v) const {
    const Input *in = g_.inputOf(v);
    return in && (in->kind == InputKind::Param || in->kind == InputKind::State) &&
           firstReader_[v.index] != kNone;
  }

  void placeSeeds() {
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;)
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (const NodeId def = g_.value(v).def; def && isSeed(def))
          place_[def.index] = place_[i];
  }

  void placeBackward() {
    const std::vector<uint32_t> last = lastNeeds();
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase == Phase::Forward || isSeed(NodeId(i)))
        continue;
      uint32_t needed = 0;
      for (uint32_t r = 0; r < n.numResults; ++r)
        needed = std::max(needed, last[n.result(r).index]);
      place_[i] = n.phase == Phase::Update ? placeOfUpdate(n, needed) : placeOfBackward(n, needed);
    }
  }

  // Not behind the places of the gradients that it reads, so that gradients pass the stages in one
  // direction.
  uint32_t placeOfBackward(const Node &n, uint32_t needed) const {
    uint32_t limit = numPlaces_ ? numPlaces_ - 1 : 0;
    for (ValueId v : n.operands)
      if (const NodeId def = g_.value(v).def; def && !isForward(def) && !isSeed(def))
        limit = std::min(limit, place_[def.index]);
    if (n.from.gradientOf)
      return std::min(place_[n.from.gradientOf.index], limit);
    for (ValueId v : n.operands)
      if (const NodeId def = g_.value(v).def; isForward(def))
        needed = std::max(needed, place_[def.index]);
    return std::min(placeOfWeights(n, limit).value_or(needed), limit);
  }

  // Where the gradients are that it reads; else where what it reads is made, and read.
  uint32_t placeOfUpdate(const Node &n, uint32_t needed) const {
    std::optional<uint32_t> gradients, operands;
    for (ValueId v : n.operands)
      if (const NodeId def = g_.value(v).def; def && !isSeed(def)) {
        operands = std::max(operands.value_or(0), place_[def.index]);
        if (g_.node(def).phase == Phase::Backward)
          gradients = std::max(gradients.value_or(0), place_[def.index]);
      }
    if (gradients)
      return *gradients;
    if (operands)
      return std::max(needed, *operands);
    return placeOfWeights(n, numPlaces_ ? numPlaces_ - 1 : 0).value_or(needed);
  }

  // The last place, up to `limit`, at which the forward pass reads a weight of the node.
  std::optional<uint32_t> placeOfWeights(const Node &n, uint32_t limit) const {
    std::optional<uint32_t> place;
    for (ValueId v : n.operands)
      if (!g_.value(v).def && g_.inputOf(v)->kind != InputKind::Input)
        if (const auto last = lastReader(v, limit))
          place = std::max(place.value_or(0), *last);
    return place;
  }

  // --- The cut

  void addUpCosts() {
    seconds_.assign(numPlaces_ + 1, 0); // before each place, in all
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      seconds_[place_[i] + 1] += t_.seconds(g_.call(NodeId(i)));
    places_.seconds.assign(seconds_.begin() + 1, seconds_.end());
    std::partial_sum(seconds_.begin(), seconds_.end(), seconds_.begin());
    // Bytes of the values that a cut before each place separates from a later reader.
    std::vector<int64_t> change(numPlaces_ + 2, 0);
    std::vector<uint32_t> lastReader(g_.numValues(), 0);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (isForward(NodeId(i)))
        for (ValueId v : g_.node(NodeId(i)).operands)
          lastReader[v.index] = std::max(lastReader[v.index], place_[i]);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (const NodeId def = g_.value(v).def; isForward(NodeId(i)) && isForward(def))
          if (place_[def.index] < place_[i])
            places_.edges.push_back({place_[def.index], place_[i]});
    for (uint32_t v = 0; v < g_.numValues(); ++v)
      if (const NodeId def = g_.value(ValueId(v)).def;
          isForward(def) && lastReader[v] > place_[def.index]) {
        change[place_[def.index] + 1] += g_.type(ValueId(v)).bytes();
        change[lastReader[v] + 1] -= g_.type(ValueId(v)).bytes();
      }
    crossing_.assign(change.begin(), change.begin() + numPlaces_ + 1);
    std::partial_sum(crossing_.begin(), crossing_.end(), crossing_.begin());
  }

  // The cost that the stage may have if none is to take longer than `seconds`, within its limit.
  double mostOf(uint32_t stage, double seconds) const {
    if (!o_.most.empty() && hasLimits_)
      seconds = std::min(seconds, o_.most[stage]);
    return seconds * aims_[stage];
  }

  // Whether runs of the forward order exist of which none costs more than `most(stage)`.
  template <typename Most> bool fits(Most most) const {
    uint32_t at = 0;
    for (uint32_t s = 0; s < o_.stages && at < numPlaces_; ++s)
      at = furthest(at, most(s));
    return at >= numPlaces_;
  }
  // The least `seconds` for which they do, from below and from above.
  template <typename Most> std::pair<double, double> leastThatFits(Most most) const {
    double low = 0, high = mostThatMatters();
    for (int i = 0; i < 100 && high - low > 1e-9 * high; ++i) {
      const double middle = (low + high) / 2;
      const bool isEnough = fits([&](uint32_t s) { return most(s, middle); });
      (isEnough ? high : low) = middle;
    }
    return {low, high};
  }
  // One stage could have all.
  double mostThatMatters() const {
    double least = aims_[0];
    for (const std::vector<double> &all : {aims_, speeds_})
      least = std::min(least, *std::min_element(all.begin(), all.end()));
    return seconds_.back() / least + 1e-30;
  }
  // The end of the longest run from `begin` that takes at most `seconds`.
  uint32_t furthest(uint32_t begin, double seconds) const {
    const double most = seconds_[begin] + seconds * (1 + 1e-12);
    return uint32_t(std::upper_bound(seconds_.begin() + begin, seconds_.end(), most) -
                    seconds_.begin()) -
           1;
  }

  // By stage, where it ends. Stages that would be empty take one place.
  std::vector<uint32_t> bestEnds() {
    hasLimits_ = true;
    hasLimits_ = fits([&](uint32_t s) { return mostOf(s, mostThatMatters()); });
    const double least =
        leastThatFits([&](uint32_t s, double seconds) { return mostOf(s, seconds); }).second;
    constexpr double kSlack = 1.01;
    return cheapestWithin(least * kSlack);
  }

  // The ends with the fewest bytes between stages, where no stage takes longer than `seconds`; by
  // dynamic programming over stages and ends.
  std::vector<uint32_t> cheapestWithin(double seconds) const {
    const uint32_t n = numPlaces_, k = o_.stages;
    std::vector<int64_t> now(n + 1, kFar), next(n + 1);
    std::vector<std::vector<uint32_t>> from(k, std::vector<uint32_t>(n + 1, kNone));
    now[0] = 0;
    for (uint32_t s = 0; s < k; ++s) {
      std::fill(next.begin(), next.end(), kFar);
      std::deque<uint32_t> window; // beginnings, by ascending bytes
      uint32_t begin = 0;
      const double most = mostOf(s, seconds) * (1 + 1e-9);
      for (uint32_t end = 1; end <= n; ++end) {
        while (!window.empty() && now[window.back()] >= now[end - 1])
          window.pop_back();
        window.push_back(end - 1);
        // A stage of one place is allowed whatever it takes: nothing can be cut from it.
        while (begin + 1 < end && seconds_[end] - seconds_[begin] > most)
          ++begin;
        while (!window.empty() && window.front() < begin)
          window.pop_front();
        if (window.empty() || now[window.front()] >= kFar)
          continue;
        next[end] = now[window.front()] + (end < n ? crossing_[end] : 0);
        from[s][end] = window.front();
      }
      std::swap(now, next);
    }
    std::vector<uint32_t> ends(k);
    if (now[n] >= kFar) { // only with too many stages of one place
      for (uint32_t s = 0; s < k; ++s)
        ends[s] = uint32_t(uint64_t(n) * (s + 1) / k);
      return ends;
    }
    for (uint32_t s = k, at = n; s-- > 0; at = from[s][at])
      ends[s] = at;
    return ends;
  }

  llvm::Expected<std::vector<uint32_t>> namedEnds() const {
    std::vector<uint32_t> ends;
    for (const std::string &name : o_.ends) {
      const ValueId v = valueNamed(g_, name);
      const NodeId def = v ? g_.value(v).def : NodeId();
      if (!isForward(def))
        return makeError("a stage is to end behind '{0}', which {1}; expected a value that a "
                         "forward node makes",
                         valueText(name), v ? "is none of the forward pass" : "does not exist");
      const uint32_t end = place_[def.index] + 1;
      if (end >= numPlaces_ || (!ends.empty() && end <= ends.back()))
        return makeError("a stage is to end behind '{0}', but {1}", valueText(name),
                         end >= numPlaces_ ? "nothing is left for the next one"
                                           : "the stage before it ends there or later");
      ends.push_back(end);
    }
    ends.push_back(numPlaces_);
    return ends;
  }

  Cut cutAt(const std::vector<uint32_t> &ends) const {
    Cut cut;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      cut.stageOf.push_back(uint32_t(llvm::upper_bound(ends, place_[i]) - ends.begin()));
    for (uint32_t s = 0; s < ends.size(); ++s)
      cut.seconds.push_back((seconds_[ends[s]] - seconds_[s ? ends[s - 1] : 0]) / speeds_[s]);
    cut.keepsLimits = o_.most.empty() || hasLimits_;
    cut.meanSeconds = seconds_.back() / double(o_.stages);
    cut.boundSeconds = std::max(cut.meanSeconds, leastSlowestStage(places_, speeds_));
    cut.leastSeconds = std::max(cut.boundSeconds, leastThatFits([&](uint32_t s, double seconds) {
                                                    return seconds * speeds_[s];
                                                  }).first);
    return cut;
  }

  static constexpr uint32_t kNone = ~0u;
  static constexpr int64_t kFar = INT64_MAX / 4;

  const Graph &g_;
  const Target &t_;
  const CutOptions &o_;
  const std::vector<double> speeds_, aims_; // by stage, over their means
  std::vector<uint32_t> place_;             // by node: its place in the forward order
  std::vector<uint32_t> firstReader_;       // by value: the place of its first forward reader
  llvm::DenseMap<ValueId, std::vector<uint32_t>> readers_; // by input: places of forward readers
  std::vector<bool> isSeed_;                               // by node
  uint32_t numPlaces_ = 0;
  std::vector<double> seconds_; // before each place, in all
  PlacesToCut places_;
  std::vector<int64_t> crossing_;
  bool hasLimits_ = false; // whether some cut keeps CutOptions::most
};

} // namespace

llvm::Expected<Cut> cutIntoStages(const Graph &g, const Target &t, const CutOptions &o) {
  return Cutting(g, t, o).run();
}

} // namespace isthmus
