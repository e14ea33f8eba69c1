#include "passes/plan/nested_search.h"

#include "passes/plan/chains/nested_schedule.h"
#include "passes/plan/dead_runs.h"
#include "passes/plan/peak_search.h"
#include "passes/plan/search/emit_schedule.h"

namespace isthmus::plan {

// Plans the `number`-th of the segments that differ from all before.
Schedule NestedSearch::planOfSegment(const Problem &p, int64_t budget, int number) {
  constexpr double kEffort = 0.01;
  constexpr int kMostSegments = 30;
  if (number > kMostSegments || run_.isStopped())
    return {};
  SearchOptions o;
  o.effort = kEffort * run_.effort;
  o.seed = run_.options.seed;
  o.isSegment = true;
  o.progress = [this](const SearchProgress &) { return run_.goesOn(); };
  SearchRun run(p, o, /*withAlternatives=*/true);
  const Found found = PeakSearch(run).within(budget, 1, PeakSearch::Series::First);
  return found ? withoutDeadRuns(p, emitSchedule(run.graph, found.tasks)) : Schedule();
}

const Found &NestedSearch::within(int64_t budget, bool isFirstEnough) {
  constexpr uint32_t kLeastTasks[] = {24, 12, 6, 48}; // of a segment
  auto [known, isNew] = known_.try_emplace({budget, isFirstEnough});
  Found &best = known->second;
  if (!isNew || !run_.mayReorder() || run_.options.isSegment)
    return best;
  for (uint32_t least : kLeastTasks) {
    if (!run_.goesOnIfLarge())
      break;
    int number = 0;
    std::vector<TaskId> tasks =
        nestedSchedule(run_.graph, budget, least, [&](const Problem &p, int64_t bytes) {
          return planOfSegment(p, bytes, ++number);
        });
    if (tasks.empty())
      continue;
    if (Found found = run_.found(std::move(tasks)); found.peak <= budget)
      best.offer(std::move(found));
    if (isFirstEnough)
      break;
  }
  return best;
}

std::vector<Found> NestedSearch::down(int64_t lowestPeak, int64_t peak) {
  constexpr int kMostBudgets = 8;
  constexpr double kFirst = 0.98, kNear = 0.005;
  std::vector<Found> met;
  int64_t budget = int64_t(kFirst * double(peak)), tooLow = lowestPeak;
  for (int i = 0; i < kMostBudgets; ++i) {
    if (const Found &found = within(budget, /*isFirstEnough=*/true))
      met.push_back(found);
    else if (met.empty())
      break;
    else
      tooLow = budget;
    const int64_t least = met.back().peak;
    if (double(least - tooLow) < kNear * double(least))
      break;
    budget = (least + tooLow) / 2;
  }
  return met;
}

} // namespace isthmus::plan
