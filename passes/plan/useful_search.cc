#include "passes/plan/useful_search.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {

// The share of the effort for one search. They end when the peaks are this near, as a share.
constexpr double kUseful = 0.04, kNearUseful = 0.002;
constexpr int kMostBisections = 8, kMostSteps = 6;
constexpr double kHot = 0.05;
// After a search that found a lower peak, the next step is this part of the last one, and after one
// that did not.
constexpr double kAfterSuccess = 0.7, kAfterFailure = 0.4;
// A stream of random numbers, beside those of PeakSearch and of the planner.
constexpr uint64_t kUsefulStream = 320;

const Found &cheapestWithin(const std::vector<Found> &known, int64_t budget) {
  const Found *best = &known[0];
  for (const Found &f : known)
    if (f.peak <= budget && best->peak <= budget ? best->isBetter(f.cost, f.peak)
                                                 : f.peak < best->peak)
      best = &f;
  return *best;
}

UsefulSearch::UsefulSearch(const SearchRun &run, PeakSearch &peaks, double baseline,
                           double mostAdded, std::vector<Found> met)
    : run_(run), peaks_(peaks), baseline_(baseline), mostAdded_(mostAdded),
      leastPeak_(met.back().peak), known_(std::move(met)) {
  for (const Found &f : known_)
    offer(f);
}

void UsefulSearch::bisect(int64_t tooDear) {
  std::vector<Found> found;
  for (int i = 0; i < kMostBisections && isFar(best_.peak - tooDear); ++i) {
    const int64_t budget = tooDear + (best_.peak - tooDear) / 2;
    if (!improve(cheapest(budget).tasks, budget))
      tooDear = budget;
    found.push_back(last_);
  }
  for (Found &f : found)
    know(std::move(f));
}

void UsefulSearch::descend(const std::vector<Found> &near) {
  for (const Found &f : near) {
    know(f);
    offer(f);
  }
  auto longest = [&] { return (best_.peak - leastPeak_) / 4; };
  const int until = numSearches_ + kMostSteps;
  for (int64_t less = longest(); numSearches_ < until && isFar(less);) {
    const int64_t budget = best_.peak - less;
    const Found start = cheapest(budget);
    bool isLower = improve(start.tasks, budget);
    if (!isLower) {
      know(last_);
      const double most = (1 + mostAdded_) * baseline_;
      const bool isPromising = last_ && last_.cost - most < start.cost - last_.cost;
      isLower = improve(std::vector(isPromising ? last_.tasks : best_.tasks), budget);
    }
    know(last_);
    less = isLower ? std::min(int64_t(kAfterSuccess * double(less)), longest())
                   : int64_t(kAfterFailure * double(less));
  }
}

bool UsefulSearch::isFar(int64_t bytes) const {
  return !run_.isStopped() && bytes > 1 && double(bytes) >= kNearUseful * double(best_.peak);
}

bool UsefulSearch::offer(const Found &f) {
  const bool isAllowed = f && overhead(f.cost, baseline_) <= mostAdded_;
  const bool isBetter = isAllowed && (!best_ || f.peak < best_.peak);
  if (isBetter)
    best_ = f;
  return isBetter;
}

void UsefulSearch::know(Found f) {
  if (f)
    known_.push_back(std::move(f));
}

Found UsefulSearch::cheapest(int64_t budget) {
  Found start = cheapestWithin(known_, budget);
  start.offer(peaks_.start(budget));
  return start;
}

bool UsefulSearch::improve(const std::vector<TaskId> &from, int64_t budget) {
  const uint64_t stream = kUsefulStream + uint64_t(numSearches_++);
  last_ = peaks_.improved(from, budget, kHot, kUseful, stream);
  return offer(last_);
}

} // namespace isthmus::plan
