// Schedules by recursion over the checkpoints of a step's segments: the cheapest within a budget,
// and the one of the lowest peak.
#pragma once

#include "passes/plan/chains/chain_schedule.h"
#include "passes/plan/search_run.h"

#include <map>

namespace isthmus::plan {

class Recursions {
public:
  explicit Recursions(SearchRun &run) : run_(run) {}

  const Found &within(int64_t budget); // may be none
  Found lowestBelow(int64_t peak);     // none if it is not below

private:
  bool isPossible() { return run_.mayReorder() && !run_.options.isSegment && run_.goesOnIfLarge(); }
  ChainOptions options(const SearchState &s) const;
  Found valid(std::vector<TaskId> tasks) const;

  SearchRun &run_;
  std::map<int64_t, Found> known_; // by budget
};

} // namespace isthmus::plan
