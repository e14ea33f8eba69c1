// Packing outward from a full step.
//
// Where memory is tightest there is no room for holes: so the blocks alive at such a step, the
// centre, are placed first, long-lived ones outside, at the bottom or the top. From there an
// allocator's simulation goes forward in time, and another backward; the further from the centre,
// the more slack there usually is. A training step is nearly a stack (what the forward part makes,
// the backward part frees in reverse; gradients of weights stay to the end), and from its peak a
// good choice of holes by the blocks' length of life reaches the peak in many cases.

#include "passes/pack_holes.h"
#include "passes/pack_search.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr size_t kMostCentres = 8;

// Which holes to take.
struct Rule {
  Fit saved, toTheEnd, shortLived;
  uint32_t longLife; // steps
};

class Outward {
public:
  Outward(Packing &p, uint32_t centre)
      : p_(p), centre_(centre), offsets_(p.blocks.size()), atCentre_(p.peak) {
    for (uint32_t i = 0; i < p.blocks.size(); ++i)
      coming_[side(i)].push_back(i);
    for (Side s : {After, Before, Around}) // of those that come together, the longer-lived first
      llvm::stable_sort(coming_[s], [&](uint32_t a, uint32_t b) {
        return s == Around ? life(a) > life(b)
                           : std::pair(begin(s, a), end(s, b)) < std::pair(begin(s, b), end(s, a));
      });
    for (Side s : {After, Before}) {
      leaving_[s] = coming_[s];
      leaving_[s].insert(leaving_[s].end(), coming_[Around].begin(), coming_[Around].end());
      llvm::stable_sort(leaving_[s], [&](uint32_t a, uint32_t b) { return end(s, a) < end(s, b); });
    }
    p_.work += 20 * int64_t(p.blocks.size());
  }

  void place(const Rule &rule, uint32_t lastStep) {
    for (Side s : {Around, After, Before})
      place(s, rule, lastStep);
    p_.offer(offsets_);
  }

private:
  enum Side { After, Before, Around };

  Side side(uint32_t i) const {
    return p_.blocks[i].first > centre_ ? After : p_.blocks[i].last < centre_ ? Before : Around;
  }
  uint32_t life(uint32_t i) const { return p_.blocks[i].last - p_.blocks[i].first; }
  // Distances from the centre to the steps where a block comes and goes, as time runs on that side.
  uint32_t begin(Side s, uint32_t i) const {
    return s == After ? p_.blocks[i].first - centre_ : centre_ - p_.blocks[i].last;
  }
  uint32_t end(Side s, uint32_t i) const {
    return s == After ? p_.blocks[i].last - centre_ : centre_ - p_.blocks[i].first;
  }

  void place(Side s, const Rule &rule, uint32_t lastStep) {
    Holes holes = s == Around ? Holes(p_.peak) : atCentre_;
    size_t gone = 0;
    for (uint32_t i : coming_[s]) {
      for (; s != Around && end(s, leaving_[s][gone]) < begin(s, i); ++gone) {
        uint32_t left = leaving_[s][gone];
        holes.release(offsets_[left], offsets_[left] + p_.blocks[left].bytes);
      }
      offsets_[i] = holes.take(p_.blocks[i].bytes, p_.blocks[i].last == lastStep ? rule.toTheEnd
                                                   : life(i) > rule.longLife     ? rule.saved
                                                                                 : rule.shortLived);
      p_.work += 8 + holes.count() / 2;
    }
    if (s == Around)
      atCentre_ = std::move(holes);
  }

  Packing &p_;
  uint32_t centre_;
  std::vector<int64_t> offsets_;
  std::vector<uint32_t> coming_[3], leaving_[2]; // by side
  Holes atCentre_;
};

// Steps to start from: the fullest, but not neighbours.
std::vector<uint32_t> centres(const Packing &p, uint32_t lastStep) {
  std::vector<int64_t> live(lastStep + 2, 0);
  for (const Block &b : p.blocks) {
    live[b.first] += b.bytes;
    live[b.last + 1] -= b.bytes;
  }
  std::vector<uint32_t> steps(lastStep + 1), result;
  for (uint32_t t = 0; t <= lastStep; ++t) {
    live[t] += t ? live[t - 1] : 0;
    steps[t] = t;
  }
  llvm::stable_sort(steps, [&](uint32_t a, uint32_t b) { return live[a] > live[b]; });
  for (uint32_t t : steps) {
    if (result.size() == kMostCentres || live[t] < live[steps[0]] / 10 * 9)
      break;
    if (llvm::none_of(result,
                      [&](uint32_t c) { return std::max(c, t) - std::min(c, t) <= lastStep / 16; }))
      result.push_back(t);
  }
  return result;
}

std::vector<Rule> rules(uint32_t lastStep) {
  std::vector<Rule> result;
  for (uint32_t longLife : {lastStep / 100, lastStep / 10})
    for (Fit shortLived : {Fit::Lowest, Fit::Highest, Fit::Tightest})
      for (Fit toTheEnd : {Fit::Highest, Fit::Lowest})
        for (Fit saved : {Fit::Lowest, Fit::Highest})
          result.push_back({saved, toTheEnd, shortLived, longLife});
  return result;
}

} // namespace

void packOutward(Packing &p, int64_t untilWork) {
  uint32_t lastStep = 0;
  for (const Block &b : p.blocks)
    lastStep = std::max(lastStep, b.last);

  for (uint32_t centre : centres(p, lastStep)) {
    Outward outward(p, centre);
    for (const Rule &rule : rules(lastStep)) {
      outward.place(rule, lastStep);
      if (p.solved() || p.work >= untilWork)
        return;
    }
  }
}

} // namespace isthmus
