#include "passes/plan/recursions.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The share of the work spent on one recursion over checkpoints, and how many sums of costs take as
// long as one step of work; measured. Even with little effort, short chains are solved.
constexpr double kShare = 0.02, kSumsPerWork = 40, kLeastSums = 3e7;
constexpr int kMostTries = 4;

} // namespace

ChainOptions Recursions::options(const SearchState &s) const {
  return {[&s](StorageId storage) { return s.isSmall(storage); },
          uint64_t(std::max(double(run_.work(kShare)) * kSumsPerWork, kLeastSums))};
}

Found Recursions::valid(std::vector<TaskId> tasks) const {
  return tasks.empty() || !run_.isValid(tasks) ? Found() : run_.found(std::move(tasks));
}

// Sizes are rounded in the recursion, so that the peak may exceed the budget a little; then less is
// asked for.
const Found &Recursions::within(int64_t budget) {
  auto [known, isNew] = known_.try_emplace(budget);
  Found &best = known->second;
  if (!isNew || !isPossible())
    return best;
  const SearchState s = run_.stateWithoutDraws(budget);
  ChainSchedules schedules(run_.graph, budget, options(s));
  int64_t asked = budget;
  for (int i = 0; i < kMostTries && !best && run_.goesOnIfLarge(); ++i) {
    Found found = valid(schedules.within(asked));
    if (!found)
      break;
    asked -= found.peak - budget;
    if (found.peak <= budget)
      best = std::move(found);
  }
  return best;
}

Found Recursions::lowestBelow(int64_t peak) {
  Found best;
  for (int i = 0; i < kMostTries && isPossible(); ++i) {
    const SearchState s = run_.stateWithoutDraws(peak);
    Found found = valid(ChainSchedules(run_.graph, peak, options(s)).lowest());
    if (!found || found.peak >= peak)
      break;
    peak = found.peak;
    best = std::move(found);
  }
  return best;
}

} // namespace isthmus::plan
