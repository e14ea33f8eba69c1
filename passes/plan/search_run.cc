#include "passes/plan/search_run.h"

#include "passes/plan/search/emit_schedule.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The work of one unit of effort; measured: about a second of a core.
constexpr double kWorkPerEffort = 3e7;
constexpr uint64_t kNoDraws = 400; // a stream of random numbers

} // namespace

SearchRun::SearchRun(const Problem &p, const SearchOptions &o, bool withAlternatives)
    : problem(p), options(o), graph(p, withAlternatives), effort(effortOf(o, graph.numOriginal)),
      baseline(evaluate(p, plan::sourceOrder(p))) {}

uint64_t SearchRun::work(double share) const {
  constexpr double kMost = 1e18; // sums of a few stay within 64 bits
  return static_cast<uint64_t>(std::min(std::max(share, 0.0) * effort * kWorkPerEffort, kMost));
}

SearchState SearchRun::state(int64_t budget, uint64_t stream) const {
  return SearchState(graph, budget, options.seed * 1000 + stream, mayReorder(), options.isSegment);
}

SearchState SearchRun::stateWithoutDraws(int64_t budget) const { return state(budget, kNoDraws); }

std::vector<TaskId> SearchRun::sourceOrder() const {
  std::vector<TaskId> tasks;
  for (TaskId t : IdRange<TaskId>{TaskId(0), TaskId(graph.numOriginal)})
    tasks.push_back(t);
  return tasks;
}

std::vector<TaskId> SearchRun::tasksOf(const Schedule &schedule) const {
  std::vector<TaskId> taskOf(problem.ops.size()), tasks;
  for (TaskId t : sourceOrder())
    taskOf[graph.tasks[t].source] = t;
  for (OpIndex i : schedule)
    if (taskOf[i])
      tasks.push_back(taskOf[i]);
  return tasks;
}

Found SearchRun::found(std::vector<TaskId> tasks) const {
  SearchState s = stateWithoutDraws(baseline.peakBytes);
  s.assign(tasks);
  return {std::move(tasks), s.cost(), s.schedule().peak()};
}

bool SearchRun::isValid(const std::vector<TaskId> &tasks) const {
  return evaluate(problem, emitSchedule(graph, tasks)).error.empty();
}

void SearchRun::follow(SearchState &s, double share) {
  const double before = share_;
  share_ += share;
  const uint64_t begin = s.work(), all = std::max<uint64_t>(work(share), 1);
  s.goOn = [this, &s, before, share, begin, all] {
    return goesOn(before + share * double(s.work() - begin) / double(all));
  };
}

} // namespace isthmus::plan
