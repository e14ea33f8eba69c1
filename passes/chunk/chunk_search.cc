#include "passes/chunk/chunk_search.h"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

constexpr size_t kMostRounds = 6; // regions in all
constexpr int64_t kMostChunks = 256;
// A worthwhile gain has less than this share of the bytes, or of the cost.
constexpr double kFewerBytes = .995, kLessCost = .998;

} // namespace

bool ChunkGoal::isBetter(const ChunkScore &a, const ChunkScore &b, Gain gain) const {
  const bool isAny = gain == Gain::Any;
  if (a.isWithin != b.isWithin)
    return a.isWithin;
  if (a.isTooDear != b.isTooDear)
    return b.isTooDear;
  if (a.isWithin && !isSmallest)
    return a.cost < (isAny ? 1 : kLessCost) * b.cost;
  const double dearer = isSmallest && b.cost > 0 ? std::max(0.0, a.cost / b.cost - 1) : 0;
  return double(a.bytes) * (1 + bytesForTime * dearer) <
         (isAny ? 1 : kFewerBytes) * double(b.bytes);
}

ChunkNumbers::ChunkNumbers(const ChunkGoal &goal, int64_t first, int64_t most)
    : goal_(goal), now_(first), most_(std::min(most, kMostChunks)) {
  if (now_ > most_)
    now_ = 0;
}

std::optional<int64_t> ChunkNumbers::next() const {
  const int64_t number = isDoubling() ? now_ : between_;
  return number > 0 ? std::optional(number) : std::nullopt;
}

int64_t ChunkNumbers::after(int64_t number) const {
  if (2 * number <= most_)
    return 2 * number;
  return number < most_ && worse_ == 0 ? most_ : 0;
}

void ChunkNumbers::tell(const std::optional<ChunkScore> &score) {
  const int64_t number = *next();
  const bool isGood = score && (!bestScore_ || goal_.isBetter(*score, *bestScore_));
  if (isGood) {
    bestScore_ = score;
    beforeBest_ = std::exchange(best_, number);
  }
  if (!isDoubling()) {
    between_ = 0;
    return;
  }
  worse_ = isGood ? 0 : worse_ + 1;
  now_ = score && worse_ < 2 ? after(number) : 0;
  if (!isDoubling() && beforeBest_ > 0 && best_ - beforeBest_ > 1)
    between_ = (beforeBest_ + best_) / 2;
}

bool ChunkSearch::goesOn() const { return isBetter_ && rounds_ < kMostRounds; }

bool ChunkSearch::begin(std::vector<Candidate> candidates) {
  if (!goesOn())
    return false;
  ++rounds_;
  isBetter_ = false;
  candidates_ = std::move(candidates);
  numbers_.clear();
  return true;
}

std::optional<ChunkSearch::Trial> ChunkSearch::next() {
  for (;;) {
    if (!numbers_.empty())
      if (const auto number = numbers_.back().next())
        return Trial{numbers_.size() - 1, *number};
    if (numbers_.size() == candidates_.size())
      return std::nullopt;
    const Candidate &c = candidates_[numbers_.size()];
    const int64_t first = c.formOf ? numbers_[*c.formOf].best() : 2;
    numbers_.emplace_back(goal_, first, first > 0 ? c.most : 0);
  }
}

bool ChunkSearch::tell(const std::optional<ChunkScore> &score) {
  numbers_.back().tell(score);
  if (!score || !goal_.isBetter(*score, best_))
    return false;
  best_ = *score;
  isBetter_ = true;
  return true;
}

} // namespace isthmus
