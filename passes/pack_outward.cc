// Packing outward from a full step.
//
// Where memory is tightest there is no room for holes: so the blocks alive at such a step, the
// centre, are placed first, long-lived ones outside, at the bottom or the top. From there an
// allocator's simulation goes forward in time, and another backward; the further from the centre,
// the more slack there usually is. A training step is nearly a stack (what the forward part makes,
// the backward part frees in reverse; gradients of weights stay to the end), and from its peak a
// good choice of holes by the blocks' length of life reaches the peak in most cases. What is
// missing is found by annealing: one block takes another kind of hole, or another turn. A block may
// also take its turn before it is alive, which keeps a place free for it.

#include "passes/pack_holes.h"
#include "passes/pack_search.h"
#include "llvm/ADT/STLExtras.h"
#include <array>

namespace isthmus {
namespace {

constexpr size_t kMostCentres = 8;
constexpr int kMostRuns = 4;   // of annealing
constexpr double kHeat = 0.01; // of the peak: what a step may lose in the beginning

// Which holes to take.
struct Rule {
  Fit saved, toTheEnd, shortLived;
  uint32_t longLife; // steps
};

class Outward {
public:
  Outward(Packing &p, uint32_t centre)
      : p_(p), centre_(centre), offsets_(p.blocks.size()), fits_(p.blocks.size(), Fit::Lowest),
        turns_(p.blocks.size()), position_(p.blocks.size()), atCentre_(p.peak) {
    std::vector<uint32_t> ids[3];
    for (uint32_t i = 0; i < p.blocks.size(); ++i)
      ids[side(i)].push_back(i);
    for (Side s : {After, Before, Around}) {
      for (uint32_t i : ids[s])
        turns_[i] = begin(s, i);
      // Of those that come together, the longer-lived first.
      llvm::stable_sort(ids[s], [&](uint32_t a, uint32_t b) {
        return s == Around ? life(a) > life(b)
                           : std::pair(turns_[a], end(s, b)) < std::pair(turns_[b], end(s, a));
      });
    }
    for (Side s : {After, Before}) {
      leaving_[s] = ids[s];
      leaving_[s].insert(leaving_[s].end(), ids[Around].begin(), ids[Around].end());
      llvm::stable_sort(leaving_[s], [&](uint32_t a, uint32_t b) { return end(s, a) < end(s, b); });
    }
    for (Side s : {After, Before, Around})
      sequences_[s].assign(std::move(ids[s]));
    p_.work += 20 * int64_t(p.blocks.size());
  }

  // Places all by the rule; returns the sum of bytes above the peak.
  int64_t place(const Rule &rule, uint32_t lastStep) {
    for (uint32_t i = 0; i < p_.blocks.size(); ++i)
      fits_[i] = p_.blocks[i].last == lastStep ? rule.toTheEnd
                 : life(i) > rule.longLife     ? rule.saved
                                               : rule.shortLived;
    for (Side s : {Around, After, Before})
      excess_[s] = run(s, INT64_MAX);
    p_.offer(offsets_);
    return excess();
  }

  void anneal(int64_t untilWork) {
    const int64_t fromWork = p_.work;
    while (!p_.solved() && p_.work < untilWork) {
      double left = double(untilWork - p_.work) / double(untilWork - fromWork);
      double heat = kHeat * double(p_.peak) * left * left;
      int64_t limit = excess() + int64_t(heat * p_.below(1 << 20) / (1 << 20));
      std::vector<uint32_t> above = p_.aboveThePeak(offsets_);
      uint32_t i = inTheWayOf(above[p_.below(above.size())]);
      Fit fit = fits_[i];
      uint32_t to = position_[i], what = p_.below(3);
      if (what != 0)
        fit = Fit((int(fit) + 1 + p_.below(2)) % 3);
      if (what != 1)
        to = otherPosition(i);
      if (change(i, fit, to, limit))
        p_.offer(offsets_);
    }
  }

private:
  enum Side { After, Before, Around };

  Side side(uint32_t i) const {
    return p_.blocks[i].first > centre_ ? After : p_.blocks[i].last < centre_ ? Before : Around;
  }
  uint32_t life(uint32_t i) const { return p_.blocks[i].last - p_.blocks[i].first; }
  // Distances from the centre to the steps where a block comes and goes, as time runs on that side.
  uint32_t begin(Side s, uint32_t i) const {
    return s == After    ? p_.blocks[i].first - centre_
           : s == Before ? centre_ - p_.blocks[i].last
                         : 0;
  }
  uint32_t end(Side s, uint32_t i) const {
    return s == After ? p_.blocks[i].last - centre_ : centre_ - p_.blocks[i].first;
  }

  int64_t excess() const { return excess_[After] + excess_[Before] + excess_[Around]; }

  // Places one side's blocks; gives up when more than `limit` bytes are above the peak.
  int64_t run(Side s, int64_t limit) {
    Holes holes = s == Around ? Holes(p_.peak) : atCentre_;
    int64_t above = 0;
    size_t gone = 0;
    for (uint32_t i : sequences_[s]) {
      for (; s != Around && end(s, leaving_[s][gone]) < turns_[i]; ++gone) {
        uint32_t left = leaving_[s][gone];
        holes.release(offsets_[left], offsets_[left] + p_.blocks[left].bytes);
      }
      offsets_[i] = holes.take(p_.blocks[i].bytes, fits_[i]);
      p_.work += 8 + holes.count() / 2;
      above += p_.excess(i, offsets_);
      if (above > limit)
        break;
    }
    if (s == Around)
      atCentre_ = std::move(holes);
    return above;
  }

  // The block itself, or one that is placed before it and conflicts with it; larger ones more
  // often.
  uint32_t inTheWayOf(uint32_t x) {
    uint32_t found = x;
    if (p_.below(4) == 0)
      return x;
    for (uint32_t tries = 1 + p_.below(3); tries > 0; --tries) {
      Side s = p_.below(4) == 0 ? Around : side(x);
      const Sequence &ids = sequences_[s];
      uint32_t earlier = s == side(x) ? position_[x] : ids.size();
      if (earlier == 0)
        continue;
      uint32_t start = p_.below(earlier);
      for (uint32_t k = 0; k < earlier; ++k, ++p_.work) {
        uint32_t i = ids[(start + earlier - k) % earlier];
        if (!liveTogether(p_.blocks[i], p_.blocks[x]))
          continue;
        if (found == x || p_.blocks[i].bytes > p_.blocks[found].bytes)
          found = i;
        break;
      }
    }
    return found;
  }

  uint32_t otherPosition(uint32_t i) {
    Side s = side(i);
    uint32_t size = sequences_[s].size(), from = position_[i];
    if (s == Around)
      return p_.below(size);
    uint32_t step = p_.below(1 + p_.below(64));
    uint32_t to = p_.below(2) ? from - std::min(from, step) : std::min(size - 1, from + step);
    while (to > from && turns_[sequences_[s][to]] > begin(s, i))
      --to; // not after it comes
    return to;
  }

  // One block's fit and turn; undone, and false, if more than `limit` bytes would be above the
  bool change(uint32_t i, Fit fit, uint32_t to, int64_t limit) {
    const Side s = side(i);
    const uint32_t from = position_[i];
    if (from == to && fit == fits_[i])
      return false;
    saved_ = offsets_;
    const Fit oldFit = std::exchange(fits_[i], fit);
    const uint32_t oldTurn = turns_[i];
    const std::array<int64_t, 3> oldExcess = excess_;
    if (from != to)
      turns_[i] = turns_[sequences_[s][to]];
    sequences_[s].move(from, to);
    p_.work += int64_t(p_.blocks.size()) / 8 + (from < to ? to - from : from - to);

    excess_[s] = run(s, limit - (s == Around ? 0 : excess() - excess_[s]));
    for (Side other : {After, Before})
      if (s == Around && excess_[Around] <= limit)
        excess_[other] = run(other, limit);
    if (excess() <= limit)
      return true;

    offsets_.swap(saved_);
    excess_ = oldExcess;
    fits_[i] = oldFit;
    turns_[i] = oldTurn;
    sequences_[s].move(to, from);
    if (s == Around)
      run(s, INT64_MAX); // the holes again
    return false;
  }

  Packing &p_;
  uint32_t centre_;
  std::vector<int64_t> offsets_, saved_;
  std::vector<Fit> fits_;
  std::vector<uint32_t> turns_;    // when placed: `begin`, or earlier
  std::vector<uint32_t> position_; // in the sequence of its side
  Sequence sequences_[3] = {Sequence(position_), Sequence(position_),
                            Sequence(position_)}; // by turn
  std::vector<uint32_t> leaving_[2];              // by end
  std::array<int64_t, 3> excess_{};               // bytes above the peak, by side
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

  struct Start {
    int64_t excess;
    uint32_t centre;
    Rule rule;
  };
  std::vector<Start> starts;
  for (uint32_t centre : centres(p, lastStep)) {
    Outward outward(p, centre);
    for (const Rule &rule : rules(lastStep)) {
      starts.push_back({outward.place(rule, lastStep), centre, rule});
      if (p.solved() || p.work >= untilWork)
        return;
    }
  }

  llvm::stable_sort(starts, [](const Start &a, const Start &b) { return a.excess < b.excess; });
  for (int run = 0; run < kMostRuns && !p.solved(); ++run) {
    const Start &start = starts[run];
    Outward outward(p, start.centre);
    outward.place(start.rule, lastStep);
    outward.anneal(p.work + (untilWork - p.work) / (kMostRuns - run));
  }
}

} // namespace isthmus
