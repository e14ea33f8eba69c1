// What the searches behind `pack` share; private to them.
#pragma once

#include "passes/place.h"

#include <random>

namespace isthmus {

// The instance, the best placement met so far, and how much was done to get it. Work is counted, in
// units of a few nanoseconds, and never timed, so that the result is the same on every machine.
class Packing {
public:
  Packing(const std::vector<Block> &blocks, int64_t peak) : blocks(blocks), peak(peak) {}

  void offer(const std::vector<int64_t> &offsets) {
    int64_t top = 0;
    for (size_t i = 0; i < blocks.size(); ++i)
      top = std::max(top, offsets[i] + blocks[i].bytes);
    work += int64_t(blocks.size()) / 8;
    if (top < least) {
      least = top;
      best = offsets;
    }
  }

  // Bytes of block i above the peak.
  int64_t excess(uint32_t i, const std::vector<int64_t> &offsets) const {
    return std::max<int64_t>(0, offsets[i] + blocks[i].bytes - peak);
  }

  std::vector<uint32_t> aboveThePeak(const std::vector<int64_t> &offsets) {
    std::vector<uint32_t> result;
    for (uint32_t i = 0; i < blocks.size(); ++i)
      if (excess(i, offsets) > 0)
        result.push_back(i);
    work += int64_t(blocks.size()) / 8;
    return result;
  }

  bool solved() const { return least <= peak; }

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  const std::vector<Block> &blocks;
  const int64_t peak;
  int64_t work = 0;
  int64_t least = INT64_MAX;
  std::vector<int64_t> best;

private:
  std::mt19937_64 random_{1}; // a fixed seed
};

inline bool liveTogether(const Block &a, const Block &b) {
  return a.first <= b.last && b.first <= a.last;
}

// A list of block ids, and where in it each block is.
class Sequence {
public:
  explicit Sequence(std::vector<uint32_t> &position) : position_(position) {}

  void assign(std::vector<uint32_t> ids) {
    ids_ = std::move(ids);
    for (uint32_t k = 0; k < ids_.size(); ++k)
      position_[ids_[k]] = k;
  }

  // Moves the id at `from` to `to`; those between make room.
  void move(uint32_t from, uint32_t to) {
    auto at = ids_.begin();
    if (from < to)
      std::rotate(at + from, at + from + 1, at + to + 1);
    else
      std::rotate(at + to, at + from, at + from + 1);
    for (uint32_t k = std::min(from, to); k <= std::max(from, to); ++k)
      position_[ids_[k]] = k;
  }

  uint32_t operator[](size_t k) const { return ids_[k]; }
  uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }
  bool empty() const { return ids_.empty(); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }

private:
  std::vector<uint32_t> ids_;
  std::vector<uint32_t> &position_; // shared by lists that have no block in common
};

// The searches. Each stops at the peak, or when `work` has reached `untilWork` or a little more.
void packOutward(Packing &p, int64_t untilWork);
void packInOrder(Packing &p, int64_t untilWork);

} // namespace isthmus
