// Searches for schedules whose peak, before placement, stays within a budget or is as small as
// possible.
#pragma once

#include "passes/plan/chain_schedule.h"
#include "passes/plan/planner.h"
#include "passes/plan/priced_schedule.h"
#include "passes/plan/searches.h"

#include <map>

namespace isthmus::plan {

class PeakSearch {
public:
  // If `known` is given, the problem's alternatives may be used; it is a plan without them.
  PeakSearch(const Problem &p, const SearchOptions &o, const PlanResult *known);

  const StorageGraph &graph() const { return g_; }
  bool isStopped() const { return isStopped_; }
  // Asks the caller whether to go on.
  bool goesOn() {
    if (o_.progress && !isStopped_)
      isStopped_ = !o_.progress({std::min(share_, 1.0), bestCost_});
    return !isStopped_;
  }
  double effort() const { return effort_; }
  // This share of all the work allowed. (A remaining share is negative if the last search overran.)
  uint64_t work(double share) const;

  // Searches whose plans are compared have different starts and separate random streams.
  enum class Series : uint8_t { First, Second };
  // Improves starts of several kinds for a while, then the best result for the rest of the work.
  Found within(int64_t budget, double share, Series series);
  // The cheapest schedule within the budget that is made without a search; may be none.
  Found start(int64_t budget);
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
  // Starts the reported progress anew: work done until now no longer counts.
  void restartProgress() { share_ = 0; }

private:
  // The same between steps that take long on large problems. (Small ones take none of the time that
  // a caller would save, and the first plan comes of these steps.)
  bool goesOnIfLarge() { return g_.isLarge() ? goesOn() : !isStopped_; }
  bool mayReorder() const { return p_.order == Order::Free; }
  SearchState state(int64_t budget, uint64_t stream) const {
    return SearchState(g_, budget, o_.seed * 1000 + stream, mayReorder(), o_.isSegment);
  }
  std::vector<TaskId> sourceOrder() const;
  std::vector<TaskId> reordered() const;
  std::vector<TaskId> tasksOf(const Schedule &schedule) const;
  Found known(int64_t budget) const;
  size_t addDraft(std::vector<TaskId> tasks);
  uint32_t addForPrice(const MemoryPrice &price);
  void findPriced();
  void addForSegments(uint32_t leastTasks);
  void findDrafts();
  Found drafted(int64_t budget);
  Found foundOf(const std::vector<TaskId> &tasks) const;
  ChainOptions chainOptions(const SearchState &s) const;
  Found chained(int64_t budget);
  Found lowestChained(int64_t most);
  Schedule planOfSegment(const Problem &p, int64_t budget, int number);
  Found nested(int64_t budget, bool isFirstEnough);
  std::vector<Found> nestedDown(int64_t lowestPeak, int64_t peak);
  void follow(SearchState &s, double share);
  double leastGain(const SearchState &s) const;

  const Problem &p_;
  const SearchOptions &o_;
  const PlanResult *known_;
  StorageGraph g_;
  double effort_;
  Evaluation baseline_;         // of the source order
  std::vector<TaskId> ordered_; // the source order, or a better one of the same tasks
  bool isStopped_ = false;
  // What the first series found, if the problem is large and improving its best start hardly led
  // further; else 0.
  double settledCost_ = 0;
  std::vector<double> improvedCosts_; // what it had found after each improvement, likewise
  double share_ = 0, bestCost_ = 0;
  // Schedules made without a search: from checkpoints of segments, and for prices of memory.
  std::vector<Found> drafts_;
  bool hasDrafts_ = false; // they are made on first use
  uint64_t pricedWork_ = 0;
  // Schedules composed of plans of segments, by the arguments of `nested`.
  std::map<std::pair<int64_t, bool>, Found> nested_;
  std::map<int64_t, Found> chained_; // by budget
};

} // namespace isthmus::plan
