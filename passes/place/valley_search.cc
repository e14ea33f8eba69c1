// Offset assignment by exact search: what lies at the bottom of a valley?
//
// Any placement can be pressed down until each buffer lies on the floor or on another one. A valley
// is a range of sections (sections.h) of one base between higher ones. In a placement that is
// pressed down, at the base of a valley's section there is either one of the section's buffers
// whose lowest offset is the base, or a gap. The search branches over these, depth first. It is
// complete, it meets each placement once, and no decision depends on what happens elsewhere at the
// same height. The section with the fewest ways is decided next, whichever the valley: most often
// only one way is left. Sections that failed before count as having fewer ways. Parts that share
// no section are searched separately.
//
// Most searches for a height either find a placement nearly without going back or do not find one
// at all, so they are short, and repeated with other ranks.
//
// Pressed-down placements, the bound of a section, and parts are those of Moffitt 2023,
// "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine learning", which
// places buffers in the order of their offsets instead; valleys are those of Burke et al. 2004
// (skyline_search.cc). Weights of failures: Boussemart et al. 2004, "Boosting systematic search by
// weighting constraints"; short searches: Gomes et al. 1998, "Boosting combinatorial search through
// randomization".

#include "passes/place/sections.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

namespace isthmus {
namespace {

// Decisions of a search, times the number of buffers: of the first, and from round to round.
constexpr double kFirstDecisions = 1.8, kMoreDecisions = 1.2;
constexpr double kNoise = 0.2;
constexpr int kRoundsAtLow = 3; // for one round of other heights

class Valleys {
public:
  explicit Valleys(OffsetAssignment &p) : p_(p), state_(p), position_(p.buffers.size()) {}

  // The measure that sets the ranks.
  enum class Rank : uint8_t { Area, Life, Bytes };
  struct Limits {
    int64_t decisions, untilWork;
  };
  enum class Outcome : uint8_t { Found, Impossible, Unknown };

  // Searches for a placement of this height; with noise, each time in another order.
  Outcome search(int64_t height, Rank by, double noise, Limits limits) {
    limits_ = limits;
    isOver_ = false;
    setPositions(by, noise);
    if (state_.clear(height) && placeAll())
      return Outcome::Found;
    return isOver_ ? Outcome::Unknown : Outcome::Impossible;
  }

  const std::vector<int64_t> &offsets() const { return state_.offsets(); }

private:
  // Buffers of high rank come first; those of one kind are next to each other.
  void setPositions(Rank by, double noise) {
    std::vector<double> rank(p_.buffers.size());
    for (uint32_t i : state_.buffers()) {
      const double life = state_.end(i) - state_.begin(i), size = double(state_.bytes(i));
      const double value = by == Rank::Life ? life : by == Rank::Bytes ? size : life * size;
      rank[i] = value * (1 + noise * double(p_.below(1 << 20)) / (1 << 20));
    }
    std::vector<uint32_t> order = state_.buffers();
    auto key = [&](uint32_t i) { return std::tuple(-rank[state_.kind(i)], state_.kind(i), i); };
    llvm::sort(order, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (uint32_t k = 0; k < order.size(); ++k)
      position_[order[k]] = k;
  }

  // The choice of what lies at the base of one section of a part. Once it is made, the parts of the
  // rest are placed one by one, each by choices of its own. (Choices are on a stack of our own:
  // there may be as many as buffers, and a host's thread may have a small stack.)
  static constexpr uint32_t kGap = ~0u;
  struct Choice {
    std::vector<uint32_t> part; // buffers to be placed, sorted by life
    uint32_t section = 0;
    std::vector<uint32_t> ways; // buffers or kGap
    size_t next = 0;            // the next way
    size_t begun = 0;           // the mark before the choice
    std::vector<uint32_t> rest; // the part's buffers not yet placed
  };

  bool placeAll() {
    std::vector<Choice> open(1);
    open[0].rest = state_.buffers();
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
        state_.undo(choice.begun);
        isPlaced = !isOver_ && chooseNext(choice);
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
    uint32_t reach = state_.end(of.rest[0]);
    size_t end = 1;
    for (; end < of.rest.size() && state_.begin(of.rest[end]) < reach; ++end)
      reach = std::max(reach, state_.end(of.rest[end]));
    if (end == of.rest.size()) {
      std::swap(next.part, of.rest);
      return next;
    }
    next.part.assign(of.rest.begin(), of.rest.begin() + long(end));
    of.rest.erase(of.rest.begin(), of.rest.begin() + long(end));
    return next;
  }

  // False if the search is over.
  bool begin(Choice &c) {
    p_.work += 20 + int64_t(c.part.size());
    p_.ask();
    if (--limits_.decisions < 0 || p_.work >= limits_.untilWork) {
      isOver_ = true;
      return false;
    }
    c.begun = state_.mark();
    c.section = sectionOfFewestWays(c.part);
    c.ways = state_.candidates(c.section);
    llvm::sort(c.ways, [&](uint32_t a, uint32_t b) { return position_[a] < position_[b]; });
    if (state_.slack(c.section) > 0)
      c.ways.push_back(kGap);
    return true;
  }

  // Of those in valleys.
  uint32_t sectionOfFewestWays(const std::vector<uint32_t> &part) const {
    const uint32_t first = state_.begin(part[0]);
    uint32_t end = 0;
    for (uint32_t i : part)
      end = std::max(end, state_.end(i));
    p_.work += (end - first) / 2;
    uint32_t best = first;
    double fewest = INFINITY;
    for (uint32_t from = first, to; from < end; from = to) {
      const int64_t base = state_.base(from);
      for (to = from + 1; to < end && state_.base(to) == base;)
        ++to;
      const bool isValley =
          (from == first || state_.base(from - 1) > base) && (to == end || state_.base(to) > base);
      for (uint32_t s = from; isValley && s < to; ++s) {
        const double ways = double(state_.numCandidates(s) + (state_.slack(s) > 0));
        if (const double weighed = ways / (1 + std::sqrt(state_.failures(s))); weighed < fewest) {
          fewest = weighed;
          best = s;
        }
      }
    }
    return best;
  }

  // Takes the next way; false, with everything undone, if none is left.
  bool chooseNext(Choice &c) {
    for (; c.next < c.ways.size(); ++c.next) {
      const uint32_t i = c.ways[c.next];
      if (i != kGap && c.next > 0 && state_.kind(i) == state_.kind(c.ways[c.next - 1]))
        continue;
      if (i == kGap ? state_.leaveGap(c.section, c.part) : state_.place(i, c.part)) {
        c.rest = c.part;
        if (i != kGap)
          llvm::erase_value(c.rest, i);
        ++c.next;
        return true;
      }
      state_.undo(c.begun);
    }
    return false;
  }

  OffsetAssignment &p_;
  Sections state_;
  std::vector<uint32_t> position_; // by buffer: in the order in which ways are tried
  Limits limits_{};
  bool isOver_ = false; // a limit was reached
};

// Chooses heights and limits: what is enough first, then halfway to the best so far, and so on;
// then all again with higher limits.
class ValleySearch final : public OffsetSearch {
public:
  ValleySearch(OffsetAssignment &p, int64_t enough)
      : p_(p), enough_(enough), search_(p), close_(p.peak / 200) {
    limits_.decisions = int64_t(kFirstDecisions * double(p.buffers.size())) + 1;
  }

  void run(int64_t turn, int64_t most) override {
    limits_.untilWork = std::min(p_.work + turn, most);
    while (goesOn(0)) {
      round();
      if (!goesOn(0))
        return;
      ++round_;
      limits_.decisions = int64_t(kMoreDecisions * double(limits_.decisions)) + 1;
      close_ = close_ * 4 / 5;
    }
  }

private:
  using Rank = Valleys::Rank;

  bool goesOn(int64_t close) const {
    return p_.work < limits_.untilWork && p_.least > std::max(enough_, p_.bound + close);
  }

  void round() {
    constexpr Rank kRanks[] = {Rank::Area, Rank::Life, Rank::Bytes};
    int64_t low = std::max(enough_, p_.bound);
    for (Rank by : kRanks)
      if (attempt(low, by))
        return;
    if (round_ % kRoundsAtLow != 0)
      return;
    const Rank by = kRanks[round_ / kRoundsAtLow % std::size(kRanks)];
    while (goesOn(close_) && low + close_ < p_.least) {
      low = std::max(low, p_.bound - 1);
      const int64_t height = low + (p_.least - low) / 2;
      if (!attempt(height, by))
        low = height;
    }
  }

  bool attempt(int64_t height, Rank by) {
    if (height < p_.bound || height >= p_.least || p_.work >= limits_.untilWork)
      return false;
    switch (search_.search(height, by, round_ > 0 ? kNoise : 0, limits_)) {
    case Valleys::Outcome::Found:
      p_.offer(search_.offsets());
      return true;
    case Valleys::Outcome::Impossible:
      p_.bound = height + 1;
      return false;
    case Valleys::Outcome::Unknown:
      return false;
    }
    return false;
  }

  OffsetAssignment &p_;
  const int64_t enough_;
  Valleys search_;
  Valleys::Limits limits_{};
  int round_ = 0;
  int64_t close_;
};

} // namespace

std::unique_ptr<OffsetSearch> valleySearch(OffsetAssignment &p, int64_t enough) {
  return std::make_unique<ValleySearch>(p, enough);
}

} // namespace isthmus
