// What the searches behind `pack` share; private to them.
#pragma once

#include "passes/place/place.h"

#include <random>

namespace isthmus {

// The instance, the best placement met so far, and how much was done to get it. Work is counted, in
// units of a few nanoseconds, and never timed, so that the result is the same on every machine.
class Packing {
public:
  // Where a placement ends at most, so that sums of heights and sizes stay within 64 bits. A search
  // may leave blocks that would end higher at this height: that is no placement.
  static constexpr int64_t kHighest = int64_t(1) << 62;

  Packing(const std::vector<Block> &blocks, int64_t peak) : blocks(blocks), peak(peak) {}

  void offer(const std::vector<int64_t> &offsets) {
    int64_t top = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (offsets[i] > kHighest - blocks[i].bytes)
        return;
      top = std::max(top, offsets[i] + blocks[i].bytes);
    }
    work += int64_t(blocks.size()) / 8;
    if (top < least) {
      least = top;
      best = offsets;
    }
  }

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  const std::vector<Block> &blocks;
  const int64_t peak;
  int64_t work = 0;
  int64_t least = INT64_MAX; // none yet
  std::vector<int64_t> best;

private:
  std::mt19937_64 random_{1}; // a fixed seed
};

constexpr int64_t kUnplaced = -1;
// Gives those that have no offset one above all others, in the order of time.
void placeOnTop(Packing &p, std::vector<int64_t> &offsets);

// The searches. Each stops at an arena of `enough`, or when `work` has reached `untilWork` or a
// little more.
void packSkyline(Packing &p, int64_t enough, int64_t untilWork);
void packCanonical(Packing &p, int64_t enough, int64_t untilWork);

} // namespace isthmus
