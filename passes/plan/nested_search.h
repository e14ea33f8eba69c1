// Schedules put together from plans of the step's segments, each nested in the one before
// (chains/nested_schedule.h). Each segment is planned by a search of its own.
#pragma once

#include "passes/plan/search_run.h"

#include <map>

namespace isthmus::plan {

class NestedSearch {
public:
  explicit NestedSearch(SearchRun &run) : run_(run) {}

  // The cheapest schedule of several divisions into segments, or the first one within the budget;
  // may be none.
  const Found &within(int64_t budget, bool isFirstEnough);
  // Schedules for lower and lower budgets, from a little below `peak`. Each has a lower peak than
  // the one before.
  std::vector<Found> down(int64_t lowestPeak, int64_t peak);

private:
  Schedule planOfSegment(const Problem &p, int64_t budget, int number);

  SearchRun &run_;
  std::map<std::pair<int64_t, bool>, Found> known_; // by the arguments of `within`
};

} // namespace isthmus::plan
