// Searches for schedules whose peak, before placement, stays within a budget or is as small as
// possible.
#pragma once

#include "passes/plan/drafts.h"
#include "passes/plan/nested_search.h"
#include "passes/plan/recursions.h"

namespace isthmus::plan {

class PeakSearch {
public:
  // `known`: a plan to start from, without alternatives; may be null. Both must outlive it.
  explicit PeakSearch(SearchRun &run, const PlanResult *known = nullptr);

  // Searches whose plans are compared have different starts and separate random streams.
  enum class Series : uint8_t { First, Second };
  // Improves starts of several kinds for a while, then the best result for the rest of the work.
  Found within(int64_t budget, double share, Series series);
  // The cheapest schedule within the budget that is made without a search; may be none.
  Found start(int64_t budget);
  // Improves a schedule at a budget again and again, each time at a lower temperature.
  Found improvedInTurn(Found found, int64_t budget, double share);
  // Improves the schedule of these tasks at another budget. Each `stream` draws other random
  // numbers.
  Found improved(const std::vector<TaskId> &tasks, int64_t budget, double hot, double share,
                 uint64_t stream);
  // Lowers the peak as far as it can; no schedule has one below `lowestPeak`. Returns all schedules
  // met on the way, each with a lower peak than the one before.
  std::vector<Found> down(double share, int64_t lowestPeak);
  // Schedules of lower and lower peaks that cost no more than `most`, each found from the one
  // before by a short search.
  std::vector<Found> falling(double most);

private:
  std::vector<TaskId> reordered() const;
  Found known(int64_t budget) const;
  double searchFromStarts(int64_t budget, double share, Series series, Found &best);
  void improve(int64_t budget, double share, Series series, Found &best);
  // Whether schedules that need no search are made only after the first start.
  bool hasLateDrafts() const { return g_.isLarge() && !g_.hasAlternatives(); }
  bool isSettledBelow(const Found &best) const {
    return settledCost_ > 0 && best && best.cost >= settledCost_;
  }
  double leastGain(const SearchState &s) const;

  SearchRun &run_;
  const StorageGraph &g_;
  const PlanResult *known_;
  Drafts drafts_;
  Recursions recursions_;
  NestedSearch nested_;
  Found ordered_; // the source order, or a better one of the same tasks
  // What the first series found, if the problem is large and improving its best start hardly led
  // further; else 0.
  double settledCost_ = 0;
  std::vector<double> improvedCosts_; // what it had found after each improvement, likewise
};

} // namespace isthmus::plan
