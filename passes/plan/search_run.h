// One run of the planner on one problem: what its searches share, the work that they may do, and
// the progress that its caller sees.
#pragma once

#include "passes/plan/planner.h"
#include "passes/plan/search/searches.h"

namespace isthmus::plan {

class SearchRun {
public:
  // The problem and the options must outlive it.
  SearchRun(const Problem &p, const SearchOptions &o, bool withAlternatives);
  SearchRun(const SearchRun &) = delete;

  const Problem &problem;
  const SearchOptions &options;
  const StorageGraph graph;
  const double effort;
  const Evaluation baseline; // of the source order

  // This share of all the work allowed. (A remaining share is negative if the last search overran.)
  uint64_t work(double share) const;

  // --- Starts
  bool mayReorder() const { return problem.order == Order::Free; }
  // Each `stream` draws other random numbers.
  SearchState state(int64_t budget, uint64_t stream) const;
  SearchState stateWithoutDraws(int64_t budget) const;
  std::vector<TaskId> sourceOrder() const;
  // The tasks of a schedule without alternatives.
  std::vector<TaskId> tasksOf(const Schedule &schedule) const;
  // A valid schedule with its peak and cost.
  Found found(std::vector<TaskId> tasks) const;
  bool isValid(const std::vector<TaskId> &tasks) const; // says the judge

  // --- Progress
  bool isStopped() const { return isStopped_; }
  // Asks the caller whether to go on.
  bool goesOn() { return goesOn(share_); }
  // The same between steps that take long on large problems. (Small ones take none of the time that
  // a caller would save, and the first plan comes of these steps.)
  bool goesOnIfLarge() { return graph.isLarge() ? goesOn() : !isStopped_; }
  // From here on, the state's work counts as `share` of the reported progress.
  void follow(SearchState &s, double share);
  // Starts the reported progress anew: work done until now no longer counts.
  void restartProgress() { share_ = 0; }
  void showBest(double cost) { bestCost_ = cost; }

private:
  bool goesOn(double share) {
    if (options.progress && !isStopped_)
      isStopped_ = !options.progress({std::min(share, 1.0), bestCost_});
    return !isStopped_;
  }

  bool isStopped_ = false;
  double share_ = 0, bestCost_ = 0;
};

} // namespace isthmus::plan
