#include "passes/plan/chains/chain_schedule.h"

#include <algorithm>

namespace isthmus::plan {

// Longer schedules take too long to place. (With one checkpoint, 1,400 equal steps take as many.)
static constexpr size_t kMostRuns = 1'000'000;

// The number of times that a storage crosses the end of a forward task, about: until its last
// forward reader.
static uint64_t numCrossings(const StorageGraph &g) {
  IdVector<StorageId, uint64_t> made(g.storages.size(), 0), last(g.storages.size(), 0);
  uint64_t at = 0, crossings = 0;
  for (TaskId t : IdRange<TaskId>{TaskId(0), TaskId(g.numOriginal)}) {
    if (g.tasks[t].isBackward)
      continue;
    ++at;
    for (StorageId s : g.tasks[t].made())
      made[s] = last[s] = at;
    for (StorageId s : g.tasks[t].reads)
      last[s] = at;
  }
  for (StorageId s : g.storages.ids())
    crossings += last[s] - made[s];
  return crossings;
}

ChainSchedules::ChainSchedules(const StorageGraph &g, int64_t mostBytes, const ChainOptions &o)
    : g_(g), mostBytes_(mostBytes) {
  constexpr uint64_t kMostCrossings = 2'000'000; // in all links
  uint32_t leastTasks = 0;
  for (uint64_t all = numCrossings(g); all / std::max(1u, leastTasks) > kMostCrossings;)
    leastTasks = leastTasks == 0 ? 2 : 2 * leastTasks;
  for (; leastTasks < g.numOriginal; leastTasks = leastTasks == 0 ? 2 : 2 * leastTasks) {
    const std::optional<Segments> segments = segmentsOf(g, leastTasks);
    if (!segments)
      continue;
    chain_ = chainOf(g, *segments, o.isSmall);
    if (!chain_ || chain_->stayingBytes >= mostBytes)
      continue;
    recursion_.emplace(chain_->links, mostBytes - chain_->stayingBytes, o.mostWork);
    if (recursion_->isComplete())
      return;
    recursion_.reset();
  }
}

std::vector<TaskId> ChainSchedules::within(int64_t budget) {
  const int64_t bytes = recursion_ ? budget - chain_->stayingBytes : 0;
  if (!recursion_ || !recursion_->isPossible() || bytes < recursion_->leastBytes())
    return {};
  return tasksOf(g_, *chain_, recursion_->runs(bytes, kMostRuns));
}

std::vector<TaskId> ChainSchedules::lowest() {
  if (!recursion_ || !recursion_->isPossible())
    return {};
  int64_t bytes = recursion_->leastBytes();
  std::vector<ChainRun> runs = recursion_->runs(bytes, kMostRuns);
  for (; runs.empty() && bytes < mostBytes_; runs = recursion_->runs(bytes, kMostRuns))
    bytes += std::max<int64_t>(1, bytes / 16);
  return tasksOf(g_, *chain_, runs);
}

} // namespace isthmus::plan
