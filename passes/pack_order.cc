// Packing in an order: each block in the lowest, highest or tightest hole among those placed before
// it.
//
// Some order gives the least arena (that of the offsets, lowest first), so the search is for an
// order: annealing in which a block that ends above the peak, or something near it, moves next to
// one that it conflicts with. Only blocks that see a change are placed again. For small instances;
// in large ones a change moves nearly all.

#include "passes/pack_holes.h"
#include "passes/pack_search.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr int kRounds = 4;      // of heating up again
constexpr double kHeat = 0.005; // of the peak: what a step may lose after heating

class InOrder {
public:
  explicit InOrder(Packing &p)
      : p_(p), offsets_(p.best), fits_(p.blocks.size(), Fit::Lowest), conflicts_(p.blocks.size()),
        position_(p.blocks.size()), order_(position_), changed_(p.blocks.size()) {
    std::vector<uint32_t> ids(p.blocks.size());
    for (uint32_t i = 0; i < ids.size(); ++i) {
      ids[i] = i;
      for (uint32_t k = 0; k < ids.size(); ++k)
        if (k != i && liveTogether(p.blocks[i], p.blocks[k]))
          conflicts_[i].push_back(k);
    }
    p_.work += int64_t(ids.size()) * int64_t(ids.size());
    llvm::stable_sort(ids, [&](uint32_t a, uint32_t b) { return offsets_[a] < offsets_[b]; });
    order_.assign(std::move(ids));
    for (uint32_t i : order_) {
      place(i);
      excess_ += p_.excess(i, offsets_);
    }
    p_.offer(offsets_);
  }

  void anneal(int64_t untilWork) {
    const int64_t fromWork = p_.work;
    while (!p_.solved() && p_.work < untilWork) {
      double done = kRounds * double(p_.work - fromWork) / double(untilWork - fromWork);
      double heat = kHeat * double(p_.peak) * (1 - (done - int(done)));
      int64_t limit = excess_ + int64_t(heat * p_.below(1 << 20) / (1 << 20));
      std::vector<uint32_t> above = p_.aboveThePeak(offsets_);
      // A block above the peak goes before one that it conflicts with; or such a one is moved
      // itself.
      uint32_t x = above[p_.below(above.size())], y = conflictOf(x), what = p_.below(20);
      if (what >= 8) {
        x = y;
        y = conflictOf(x);
      }
      if (what >= 8 && what < 11)
        std::swap(x, y);
      Fit fit = p_.below(5) == 0 ? Fit(p_.below(3)) : fits_[x];
      if (change(x, fit, position_[y], limit))
        p_.offer(offsets_);
    }
  }

private:
  // There is one: a block alone in its steps is never above the peak.
  uint32_t conflictOf(uint32_t i) { return conflicts_[i][p_.below(conflicts_[i].size())]; }

  void place(uint32_t i) {
    taken_.clear();
    for (uint32_t k : conflicts_[i])
      if (position_[k] < position_[i])
        taken_.emplace_back(offsets_[k], offsets_[k] + p_.blocks[k].bytes);
    llvm::sort(taken_);
    p_.work += 4 + int64_t(conflicts_[i].size()) + 4 * int64_t(taken_.size());
    taken_.emplace_back(std::max(p_.peak, taken_.empty() ? 0 : taken_.back().second), INT64_MAX);

    const int64_t bytes = p_.blocks[i].bytes;
    int64_t at = 0, tightest = INT64_MAX, result = -1;
    for (auto [from, to] : taken_) {
      int64_t room = from - at;
      bool better =
          fits_[i] == Fit::Lowest ? result < 0 : fits_[i] == Fit::Highest || room < tightest;
      if (room >= bytes && better) {
        result = fits_[i] == Fit::Highest ? from - bytes : at;
        tightest = room;
      }
      if (to != INT64_MAX)
        at = std::max(at, to);
    }
    offsets_[i] = result >= 0 ? result : at;
  }

  // One block's fit and place in the order; undone, and false, if more than `limit` bytes would be
  // above the peak.
  bool change(uint32_t x, Fit fit, uint32_t to, int64_t limit) {
    const uint32_t from = position_[x], low = std::min(from, to), high = std::max(from, to);
    if (from == to && fit == fits_[x])
      return false;
    const Fit oldFit = std::exchange(fits_[x], fit);
    order_.move(from, to);
    changed_[x] = true;
    for (uint32_t k : conflicts_[x])
      changed_[k] = low <= position_[k] && position_[k] <= high;
    p_.work += int64_t(conflicts_[x].size()) + (high - low) / 4;
    if (placeChanged(low, limit))
      return true;
    fits_[x] = oldFit;
    order_.move(to, from);
    return false;
  }

  // `later` is what blocks not yet looked at have above the peak: all that can still be saved.
  bool placeChanged(uint32_t from, int64_t limit) {
    undo_.clear();
    int64_t excess = excess_, later = excess_;
    for (uint32_t k = 0; k < from; ++k)
      later -= p_.excess(order_[k], offsets_);
    for (uint32_t k = from; k < order_.size(); ++k) {
      uint32_t i = order_[k];
      int64_t before = p_.excess(i, offsets_), old = offsets_[i];
      later -= before;
      if (!std::exchange(changed_[i], false) || excess - later > limit)
        continue; // no return: flags must be cleared
      place(i);
      if (offsets_[i] == old)
        continue;
      excess += p_.excess(i, offsets_) - before;
      undo_.emplace_back(i, old);
      for (uint32_t other : conflicts_[i])
        changed_[other] = changed_[other] || position_[other] > k;
      p_.work += int64_t(conflicts_[i].size()) / 2;
    }
    p_.work += order_.size() / 4;
    if (excess <= limit) {
      excess_ = excess;
      return true;
    }
    for (auto [i, old] : undo_)
      offsets_[i] = old;
    return false;
  }

  Packing &p_;
  std::vector<int64_t> offsets_;
  std::vector<Fit> fits_;
  std::vector<std::vector<uint32_t>> conflicts_;
  std::vector<uint32_t> position_;
  Sequence order_;
  int64_t excess_ = 0;           // bytes above the peak
  std::vector<uint8_t> changed_; // what is placed before them is not what it was
  std::vector<std::pair<uint32_t, int64_t>> undo_;
  std::vector<std::pair<int64_t, int64_t>> taken_;
};

} // namespace

void packInOrder(Packing &p, int64_t untilWork) { InOrder(p).anneal(untilWork); }

} // namespace isthmus
