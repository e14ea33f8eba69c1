// The search for the lowest peak that adds no more than allowed, where the least peak at any price
// adds too much: the last bytes often cost more than all others together.
#pragma once

#include "passes/plan/peak_search.h"

namespace isthmus::plan {

// The cheapest of the schedules whose peak is within the budget; of none, that of the lowest peak.
// `known` is not empty.
const Found &cheapestWithin(const std::vector<Found> &known, int64_t budget);

// Searches between schedules that were met. Where a search fails, that may be the fault of its
// start: at the least peak a schedule may cost less than halfway to it.
class UsefulSearch {
public:
  // `baseline`: the cost without recomputation. `mostAdded`: as a share of it. `met`: the schedules
  // met on the way to the least peak, which is that of the last one.
  UsefulSearch(const SearchRun &run, PeakSearch &peaks, double baseline, double mostAdded,
               std::vector<Found> met);

  const Found &best() const { return best_; } // none if all cost too much

  // Each search starts at the cheapest schedule that was met. `tooDear` is a peak.
  void bisect(int64_t tooDear);

  // Goes on below the result of the bisection, in steps that shrink more after a failure. What
  // failed searches found is known by now, and so is `near`. A search that fails is tried again:
  // from where it ended, if it gained so much that the same again would do, or else from the best
  // schedule.
  void descend(const std::vector<Found> &near);

private:
  bool isFar(int64_t bytes) const;
  bool offer(const Found &f); // whether it is the best one now
  void know(Found f);
  Found cheapest(int64_t budget);
  bool improve(const std::vector<TaskId> &from, int64_t budget); // whether the peak is lower now

  const SearchRun &run_;
  PeakSearch &peaks_;
  const double baseline_, mostAdded_;
  const int64_t leastPeak_;
  std::vector<Found> known_;
  Found best_, last_; // `last_`: what the last search found
  int numSearches_ = 0;
};

} // namespace isthmus::plan
