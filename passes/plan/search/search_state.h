// The state that all searches share: a schedule with undo, the budget of its peak, the storages
// that are worth an eviction, random numbers, and the limit of work.
#pragma once

#include "passes/plan/random.h"
#include "passes/plan/search/edit_log.h"

#include <functional>

namespace isthmus::plan {

class SearchState {
public:
  // Starts with the source order. `mayReorder`: first steps may change places. `countsAll`: no
  // storage is too small for an eviction.
  SearchState(const StorageGraph &g, int64_t budget, uint64_t seed, bool mayReorder,
              bool countsAll = false);
  void assign(const std::vector<TaskId> &tasks) { edits.assign(tasks); }

  EditLog edits;
  Random random;

  const StorageGraph &graph() const { return g_; }
  const EditableSchedule &schedule() const { return edits.schedule(); }
  const LiveProfile &profile() const { return schedule().profile(); }
  double cost() const { return schedule().cost(); }

  int64_t budget() const { return budget_; }
  void setBudget(int64_t bytes);
  bool fits() const { return schedule().peak() <= budget_; }
  int64_t excess() const { return profile().excessOver(budget_); }

  // Whether to assume that a transfer is hidden when it is compared with another form of the
  // reader.
  bool prefersTransfers = false;

  // Small storages are never evicted: they are not worth a step.
  bool isSmall(StorageId s) const { return g_.storages[s].bytes < leastBytes_; }
  // The storages that are not small and can be evicted.
  const std::vector<StorageId> &candidates() const { return candidates_; }
  // Draws one of them. Where the problem is large, mostly with a chance that grows with the square
  // root of its size: among thousands of small storages, a large one that is read again and again
  // is found early. (Plans of large recurrent networks add a twentieth less; those of small ones,
  // a hundredth more.)
  StorageId randomCandidate();
  double makingCost(StorageId s) const { return g_.tasks[g_.storages[s].maker].cost; }

  uint64_t work() const { return schedule().work().done; }
  void addWork(uint64_t steps) const { schedule().work().done += steps; }
  // Called now and then by searches; false ends them. May be empty.
  std::function<bool()> goOn;
  bool isOver(uint64_t untilWork) {
    if (goOn && ++asked_ % 64 == 0 && !goOn())
      isStopped_ = true;
    return isStopped_ || work() >= untilWork;
  }

private:
  int64_t leastWorthwhile() const;
  void weighCandidates();

  const StorageGraph &g_;
  bool countsAll_;
  int64_t budget_ = 0, leastBytes_ = 0;
  std::vector<int64_t> bytesAtPeak_; // storages live at the source order's peak, sorted
  std::vector<StorageId> candidates_;
  std::vector<StorageId> bySize_; // of them, if weighed: at equal distances of their summed weights
  uint64_t asked_ = 0;
  bool isStopped_ = false;
};

} // namespace isthmus::plan
