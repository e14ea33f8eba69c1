// Schedules made without a search, for whatever budget: from checkpoints of segments, and for
// prices of memory.
#pragma once

#include "passes/plan/search/priced_schedule.h"
#include "passes/plan/search_run.h"

namespace isthmus::plan {

class Drafts {
public:
  explicit Drafts(SearchRun &run) : run_(run), g_(run.graph) {}

  // All drafts, which are made on first use. Those that are not made because the run is stopped are
  // missing.
  const std::vector<Found> &all();
  Found cheapestWithin(int64_t budget); // may be none

private:
  size_t add(std::vector<TaskId> tasks);
  void addForSegments(uint32_t leastTasks);
  uint32_t addForPrice(const MemoryPrice &price);
  void addForPrices();

  SearchRun &run_;
  const StorageGraph &g_;
  bool areMade_ = false;
  uint64_t pricedWork_ = 0;
  std::vector<Found> drafts_;
};

} // namespace isthmus::plan
