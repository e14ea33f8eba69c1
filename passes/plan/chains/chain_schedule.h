// Schedules of a training step from recursions over checkpoints: the step is a chain of segments,
// and what crosses from one to the next may be held. They are near the cheapest within a budget for
// chains, chains of blocks and chains within blocks, whatever the sizes and costs; but a storage
// that crosses an end, as a skip connection does, is held or freed with all that cross there.
// Standard library only.
#pragma once

#include "passes/plan/chains/segment_chain.h"

namespace isthmus::plan {

struct ChainOptions {
  std::function<bool(StorageId)> isSmall; // never freed before its last read
  uint64_t mostWork = 0;                  // as of CheckpointRecursion
};

class ChainSchedules {
public:
  // For budgets up to `mostBytes`. Takes the smallest segments for which the work suffices: each of
  // one forward task, or of some.
  ChainSchedules(const StorageGraph &g, int64_t mostBytes, const ChainOptions &o);
  ChainSchedules(const ChainSchedules &) = delete;

  // The tasks of the cheapest schedule found within the budget; empty if there is none. Sizes are
  // rounded, so that the peak may exceed the budget a little, and a task may read a parameter
  // after its update: a judge has to confirm it.
  std::vector<TaskId> within(int64_t budget);
  // The same with the lowest peak of schedules that are not too long.
  std::vector<TaskId> lowest();

private:
  const StorageGraph &g_;
  const int64_t mostBytes_;
  std::optional<SegmentChain> chain_;
  std::optional<CheckpointRecursion> recursion_; // of its links
};

} // namespace isthmus::plan
