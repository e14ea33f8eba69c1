// Shared by the searches behind `assignOffsets`, and private to them.
#pragma once

#include "passes/place/place.h"

#include <memory>
#include <numeric>
#include <random>

namespace isthmus {

// The buffers to place, the best placement so far, and the work done for it. Work is counted, in
// units of a few nanoseconds, and never timed, so that the result is the same on every machine.
class OffsetAssignment {
public:
  // The highest end of a placement, so that sums of heights and sizes stay within 64 bits. A search
  // may leave buffers that would end above it at this height; the result is then no placement.
  static constexpr int64_t kHighest = int64_t(1) << 62;

  OffsetAssignment(const std::vector<Buffer> &buffers, int64_t peak, std::function<bool()> goOn)
      : buffers(buffers), peak(peak), bound(peak), goOn_(std::move(goOn)) {
    for (const Buffer &b : buffers)
      unit = std::gcd(unit, b.bytes);
  }

  // Asks the caller whether to go on, after some work. A stop uses up all work, so that the
  // searches end at once.
  void ask() {
    if (isStopped_ || !goOn_ || work < nextQuestion_)
      return;
    nextQuestion_ = work + kBetweenQuestions;
    if (!goOn_()) {
      isStopped_ = true;
      work = kUsedUp;
    }
  }
  bool isStopped() const { return isStopped_; }
  // Whether a search may end now: it was stopped, and there is a placement.
  bool mayEnd() const { return isStopped_ && least < INT64_MAX; }

  void offer(const std::vector<int64_t> &offsets) {
    int64_t top = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (offsets[i] > kHighest - buffers[i].bytes)
        return;
      top = std::max(top, offsets[i] + buffers[i].bytes);
    }
    work += int64_t(buffers.size()) / 8;
    if (top < least) {
      least = top;
      best = offsets;
    }
  }

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  const std::vector<Buffer> &buffers;
  int64_t unit = 0; // the greatest common divisor of the sizes; offsets are multiples of it too
  const int64_t peak;
  int64_t bound; // no placement is lower
  int64_t work = 0;
  int64_t least = INT64_MAX; // none yet
  std::vector<int64_t> best;

private:
  static constexpr int64_t kUsedUp = INT64_MAX / 2, kBetweenQuestions = 2'000'000;

  std::mt19937_64 random_{1}; // a fixed seed
  std::function<bool()> goOn_;
  int64_t nextQuestion_ = 0;
  bool isStopped_ = false;
};

constexpr int64_t kUnplaced = -1;
// Places the buffers in the order of time, each at the lowest offset at which it fits. Ends early,
// and returns false, if one would end above `highest`.
bool placeInTime(const OffsetAssignment &p, std::vector<int64_t> &offsets, int64_t highest);

// Places the larger buffers first, and those of one size in the order of time, each at the lowest
// offset at which it fits. So few sizes, of which each comes and goes many times, lie in layers
// (unrolled recurrent networks). Gives up, and returns false, where buffers are very many.
bool placeBySize(const OffsetAssignment &p, std::vector<int64_t> &offsets);

// A search that can be continued. It stops at an arena of `enough` bytes.
class OffsetSearch {
public:
  virtual ~OffsetSearch() = default;
  // Does `turn` more work or a little more, but none once all work has reached `most`. What it does
  // first does not depend on `most`.
  virtual void run(int64_t turn, int64_t most) = 0;
};
std::unique_ptr<OffsetSearch> skylineSearch(OffsetAssignment &p, int64_t enough);
std::unique_ptr<OffsetSearch> ejectionSearch(OffsetAssignment &p, int64_t enough);
std::unique_ptr<OffsetSearch> valleySearch(OffsetAssignment &p, int64_t enough);

} // namespace isthmus
