// Offset assignment by searching through orders from the bottom up.
//
// Any placement can be pressed down until each buffer lies on the floor or on another one. So it is
// enough to place buffers in the order of their offsets, each as low as those below it allow. The
// search is depth first; of the buffers that may lie equally low, it tries the one of most bytes
// times steps first. It turns back when the buffers still to be placed no longer fit at some step.
// Buffers that no longer share a step are searched separately. Buffers at a failed step come
// earlier in the next search.
//
// After Moffitt 2023, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine
// learning". The test of a step is that of one machine with release dates (Carlier 1982); weights
// of failures are those of Boussemart et al. 2004, "Boosting systematic search by weighting
// constraints".

#include "passes/place/offset_search.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace isthmus {
namespace {

constexpr size_t kMostBuffers = 4000; // memory is quadratic in them
constexpr double kWorkPerDive = 2;    // times the square of their number
constexpr int64_t kFirstFailures = 64;
constexpr double kFailureWeight = 0.1;
constexpr double kNoise = 0.6;

class Canonical {
public:
  Canonical(OffsetAssignment &p, int64_t leastBytes)
      : p_(p), offsets_(p.buffers.size(), kUnplaced) {
    const size_t n = p.buffers.size();
    for (uint32_t i = 0; i < n; ++i)
      if (p.buffers[i].bytes >= leastBytes)
        all_.push_back(i);
    findCliques();
    findKinds();
    rank_.resize(n);
    failures_.assign(n, 0);
    isPlaced_.resize(n);
    lowest_.resize(n);
    coming_.resize(cliques_.size());
    isSuspect_.resize(cliques_.size());
  }

  // The measure that sets the ranks, besides former failures.
  enum class Rank : uint8_t { Area, Life, Bytes };
  struct Limits {
    int64_t failures, untilWork;
  };
  enum class Outcome : uint8_t { Found, Impossible, Unknown };

  // Searches for a placement of this height; with noise, each time in another order.
  Outcome search(int64_t height, Rank by, double noise, Limits limits) {
    height_ = height;
    limits_ = limits;
    isStopped_ = false;
    setRanks(by, noise);
    std::fill(isPlaced_.begin(), isPlaced_.end(), false);
    std::fill(lowest_.begin(), lowest_.end(), 0);
    std::fill(isSuspect_.begin(), isSuspect_.end(), false);
    std::fill(coming_.begin(), coming_.end(), 0);
    for (uint32_t i : all_)
      come(i, bytes(i));
    trail_.clear();
    p_.work += 20 * int64_t(all_.size());
    if (placeAll())
      return Outcome::Found;
    return isStopped_ ? Outcome::Unknown : Outcome::Impossible;
  }

  const std::vector<int64_t> &offsets() const { return offsets_; } // of the buffers searched

private:
  // Finds the maximal sets of buffers that are live together, in the order of time. A buffer's life
  // becomes a range of these sets. Sorts all buffers by first step.
  void findCliques() {
    const size_t n = p_.buffers.size();
    from_.resize(n);
    to_.resize(n);
    llvm::stable_sort(
        all_, [&](uint32_t a, uint32_t b) { return p_.buffers[a].first < p_.buffers[b].first; });
    std::vector<uint32_t> live;
    for (uint32_t i : all_) {
      auto isDead = [&](uint32_t j) { return p_.buffers[j].last < p_.buffers[i].first; };
      if (llvm::any_of(live, isDead)) {
        cliques_.push_back(live);
        llvm::erase_if(live, isDead);
      }
      live.push_back(i);
    }
    cliques_.push_back(live);
    for (uint32_t s = cliques_.size(); s-- > 0;)
      for (uint32_t i : cliques_[s])
        from_[i] = s;
    for (uint32_t s = 0; s < cliques_.size(); ++s) {
      for (uint32_t i : cliques_[s])
        to_[i] = s;
      p_.work += 4 * int64_t(cliques_[s].size());
    }
  }

  // Buffers of one size and life are of one kind, and interchangeable.
  void findKinds() {
    auto key = [&](uint32_t i) { return std::tuple(from_[i], to_[i], bytes(i)); };
    std::vector<uint32_t> order = all_;
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    kind_.resize(p_.buffers.size());
    for (size_t k = 0; k < order.size(); ++k)
      kind_[order[k]] =
          k > 0 && key(order[k]) == key(order[k - 1]) ? kind_[order[k - 1]] : order[k];
  }

  void setRanks(Rank by, double noise) {
    for (uint32_t i : all_) {
      double life = double(to_[i] - from_[i]) + 1, size = double(bytes(i));
      double value = by == Rank::Life ? life : by == Rank::Bytes ? size : life * size;
      rank_[i] = value * (1 + failures_[i]) * (1 + noise * double(p_.below(1 << 20)) / (1 << 20));
    }
    for (uint32_t i : all_)
      rank_[i] = rank_[kind_[i]];
  }

  int64_t bytes(uint32_t i) const { return p_.buffers[i].bytes; }
  int64_t lowest(uint32_t i, int64_t floor) const { return std::max(lowest_[i], floor); }

  // The choice of the lowest buffer of a part. A part is a group of buffers that shares no step
  // with another part. Once a buffer is chosen, the parts of the rest are placed one by one, each
  // by a choice of its own. (Choices are on a stack of our own: there may be as many as buffers,
  // and a host's thread may have a small stack.)
  struct Choice {
    std::vector<uint32_t> part, candidates;
    int64_t floor = 0;          // no buffer of the part lies below it
    size_t next = 0;            // the next candidate
    size_t begun = 0;           // the trail's length before the part
    size_t chosen = 0;          // the trail's length before the chosen buffer
    std::vector<uint32_t> rest; // the part's buffers not yet placed, sorted by life
    int64_t restFloor = 0;
  };

  bool placeAll() {
    std::vector<Choice> open(1);
    open[0].rest = all_;
    for (bool isPlaced = true; !open.empty();) { // whether the last choice succeeded
      Choice &choice = open.back();
      if (isPlaced && choice.rest.empty()) {
        open.pop_back();
      } else if (isPlaced) {
        Choice next = firstPart(choice);
        isPlaced = begin(next) && chooseNext(next);
        if (isPlaced)
          open.push_back(std::move(next));
      } else {
        undo(choice.chosen);
        isPlaced = chooseNext(choice);
        if (!isPlaced)
          open.pop_back();
      }
      if (open.empty())
        return isPlaced;
    }
    return true;
  }

  // Moves the first part out of the rest.
  Choice firstPart(Choice &of) const {
    Choice next;
    next.floor = of.restFloor;
    uint32_t reach = to_[of.rest[0]];
    size_t end = 1;
    for (; end < of.rest.size() && from_[of.rest[end]] <= reach; ++end)
      reach = std::max(reach, to_[of.rest[end]]);
    if (end == of.rest.size()) {
      std::swap(next.part, of.rest);
      return next;
    }
    next.part.assign(of.rest.begin(), of.rest.begin() + long(end));
    of.rest.erase(of.rest.begin(), of.rest.begin() + long(end));
    return next;
  }

  // False if the part cannot be placed, or the search is over.
  bool begin(Choice &c) {
    p_.work += 20 + int64_t(c.part.size());
    p_.ask();
    if (limits_.failures <= 0 || p_.work >= limits_.untilWork) {
      isStopped_ = true;
      return false;
    }
    c.begun = trail_.size();
    if (!mayFit(c.part, c.floor)) {
      undo(c.begun);
      return false;
    }
    c.candidates = lowestOf(c.part, c.floor);
    return true;
  }

  // False, with everything undone, if no candidate is left.
  bool chooseNext(Choice &c) {
    for (; c.next < c.candidates.size() && !isStopped_; ++c.next) {
      const uint32_t i = c.candidates[c.next];
      if (c.next > 0 && kind_[i] == kind_[c.candidates[c.next - 1]])
        continue;
      c.chosen = trail_.size();
      put(i, lowest(i, c.floor), c.part, c.rest);
      c.restFloor = offsets_[i];
      ++c.next;
      return true;
    }
    undo(c.begun);
    return false;
  }

  bool mayFit(const std::vector<uint32_t> &part, int64_t floor) {
    const uint32_t first = from_[part[0]];
    uint32_t last = 0;
    for (uint32_t i : part)
      last = std::max(last, to_[i]);
    p_.work += (last - first) / 8;
    for (uint32_t s = first; s <= last; ++s) {
      bool isBad = floor + coming_[s] > height_;
      if (!isBad && isSuspect_[s]) {
        isBad = !mayFit(s, floor);
        isSuspect_[s] = false;
        trail_.push_back({s, kSuspect, true});
      }
      if (!isBad)
        continue;
      --limits_.failures;
      for (uint32_t i : cliques_[s])
        if (!isPlaced_[i])
          failures_[i] += kFailureWeight;
      return false;
    }
    return true;
  }

  // Whether the buffers still to be placed at one step fit on top of each other, none of them below
  // the floor or below the end of a placed buffer that is alive with it.
  bool mayFit(uint32_t s, int64_t floor) {
    // Insertion sort, since the order is nearly that of the last call.
    std::vector<uint32_t> &order = cliques_[s];
    size_t count = 0, moves = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      uint32_t i = order[k];
      if (isPlaced_[i])
        continue;
      order[k] = order[count];
      size_t to = count++;
      for (; to > 0 && lowest_[order[to - 1]] > lowest_[i]; --to, ++moves)
        order[to] = order[to - 1];
      order[to] = i;
    }
    int64_t top = floor;
    for (size_t k = 0; k < count; ++k)
      top = std::max(top, lowest_[order[k]]) + bytes(order[k]);
    p_.work += int64_t(2 + order.size() / 2 + count + moves);
    return top <= height_;
  }

  // The buffers of a part that may lie lowest, the best first: no other buffer fits below them.
  std::vector<uint32_t> lowestOf(const std::vector<uint32_t> &part, int64_t floor) const {
    int64_t leastTop = INT64_MAX;
    for (uint32_t i : part)
      leastTop = std::min(leastTop, lowest(i, floor) + bytes(i));
    std::vector<uint32_t> result;
    for (uint32_t i : part)
      if (lowest(i, floor) < leastTop)
        result.push_back(i);
    auto key = [&](uint32_t i) { return std::tuple(lowest(i, floor), -rank_[i], kind_[i], i); };
    llvm::sort(result, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    p_.work += 8 * int64_t(result.size());
    return result;
  }

  void put(uint32_t i, int64_t at, const std::vector<uint32_t> &part, std::vector<uint32_t> &rest) {
    const int64_t top = at + bytes(i);
    offsets_[i] = at;
    isPlaced_[i] = true;
    come(i, -bytes(i));
    trail_.push_back({i, kPlaced, 0});
    suspect(from_[i], to_[i] + 1, top);
    rest.clear();
    for (uint32_t other : part) {
      if (other == i)
        continue;
      rest.push_back(other);
      if (from_[other] <= to_[i] && from_[i] <= to_[other] && lowest_[other] < top) {
        trail_.push_back({other, kLowest, lowest_[other]});
        lowest_[other] = top;
        suspect(from_[other], from_[i], top);
        suspect(to_[i] + 1, to_[other] + 1, top);
      }
    }
    p_.work += int64_t(part.size());
  }

  void come(uint32_t i, int64_t bytes) {
    for (uint32_t s = from_[i]; s <= to_[i]; ++s)
      coming_[s] += bytes;
  }

  // Marks the steps where a buffer can no longer lie below `lowest` and the others may not fit.
  void suspect(uint32_t from, uint32_t to, int64_t lowest) {
    for (uint32_t s = from; s < to; ++s)
      if (coming_[s] > height_ - lowest && !isSuspect_[s]) {
        isSuspect_[s] = true;
        trail_.push_back({s, kSuspect, false});
      }
    p_.work += from < to ? (to - from) / 8 : 0;
  }

  enum What : uint8_t { kLowest, kPlaced, kSuspect };
  struct Change {
    uint32_t which; // buffer or clique
    What what;
    int64_t before;
  };

  void undo(size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) {
      const auto [which, what, before] = trail_.back();
      if (what == kLowest) {
        lowest_[which] = before;
      } else if (what == kSuspect) {
        isSuspect_[which] = before != 0;
      } else {
        isPlaced_[which] = false;
        come(which, bytes(which));
      }
    }
  }

  OffsetAssignment &p_;
  int64_t height_ = 0;
  Limits limits_{};
  bool isStopped_ = false;

  std::vector<uint32_t> all_;
  std::vector<std::vector<uint32_t>> cliques_;
  std::vector<uint32_t> from_, to_, kind_; // by buffer
  std::vector<double> rank_, failures_;    // by buffer
  std::vector<uint8_t> isPlaced_;
  std::vector<int64_t> lowest_; // by buffer: the highest end of placed buffers alive with it
  std::vector<int64_t> offsets_;
  std::vector<int64_t> coming_;    // by clique: bytes still to be placed
  std::vector<uint8_t> isSuspect_; // by clique: its buffers may not fit
  std::vector<Change> trail_;
};

// The least size of the buffers that are searched for, if there are too many.
int64_t leastBytes(const OffsetAssignment &p, int64_t work) {
  auto most = static_cast<size_t>(std::sqrt(double(std::max<int64_t>(work, 1)) / kWorkPerDive));
  most = std::min(std::max<size_t>(most, 1), kMostBuffers);
  if (p.buffers.size() <= most)
    return 0;
  std::vector<int64_t> sizes;
  for (const Buffer &b : p.buffers)
    sizes.push_back(b.bytes);
  std::nth_element(sizes.begin(), sizes.begin() + most, sizes.end(), std::greater<>());
  return sizes[most] + 1;
}

// Chooses heights and limits: the peak first, then halfway to the best so far, and so on; then all
// again with higher limits.
class Heights {
public:
  Heights(OffsetAssignment &p, int64_t untilWork)
      : p_(p), search_(p, leastBytes(p, untilWork - p.work)), limits_{kFirstFailures, untilWork},
        impossible_(p.peak - 1), close_(p.peak / 200) {}

  void run(int64_t enough) {
    for (int round = 0; goOn(0); ++round) {
      attempt(p_.peak, round);
      if (p_.least > enough)
        attempt(enough, round);
      for (int64_t low = p_.peak; goOn(close_) && low + close_ < p_.least;) {
        low = std::max(low, impossible_);
        int64_t height = low + (p_.least - low) / 2;
        if (!attempt(height, round))
          low = height;
      }
      if (p_.least <= enough)
        return;
      limits_.failures *= 2;
      close_ /= 2;
    }
  }

private:
  bool goOn(int64_t close) const {
    return p_.work < limits_.untilWork && p_.least > impossible_ + 1 + close;
  }

  bool attempt(int64_t height, int round) {
    using Rank = Canonical::Rank;
    using Outcome = Canonical::Outcome;
    for (Rank by : {Rank::Area, Rank::Life, Rank::Bytes}) {
      if (height <= impossible_ || height >= p_.least || p_.work >= limits_.untilWork)
        return false;
      switch (search_.search(height, by, round > 0 ? kNoise : 0, limits_)) {
      case Outcome::Found: {
        std::vector<int64_t> offsets = search_.offsets();
        placeOnTop(p_, offsets);
        p_.offer(offsets);
        return true;
      }
      case Outcome::Impossible:
        impossible_ = height;
        return false;
      case Outcome::Unknown:
        if (round == 0)
          return false;
      }
    }
    return false;
  }

  OffsetAssignment &p_;
  Canonical search_;
  Canonical::Limits limits_;
  int64_t impossible_; // the largest impossible height known
  int64_t close_;
};

} // namespace

void searchCanonical(OffsetAssignment &p, int64_t enough, int64_t untilWork) {
  Heights(p, untilWork).run(enough);
}

} // namespace isthmus
