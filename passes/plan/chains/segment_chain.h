// The segments of a training step as a chain of links for CheckpointRecursion, and the tasks of
// each. Standard library only.
#pragma once

#include "passes/plan/chains/checkpoint_recursion.h"
#include "passes/plan/chains/segments.h"

#include <functional>
#include <optional>

namespace isthmus::plan {

struct SegmentChain {
  std::vector<ChainLink> links; // by segment, from the first
  int64_t stayingBytes = 0;     // beside the links' bytes
  // By segment, in source order: its forward tasks; those that make what crosses its end from what
  // crosses the end before it; those that make what its backward tasks read; those that make both;
  // and its backward tasks.
  struct Tasks {
    std::vector<TaskId> forward, sweep, again, keeping, backward;
  };
  std::vector<Tasks> tasks;
};

// Small storages stay live from their only run to their last read, like those that must not be made
// again. None if a backward task reads a storage that cannot be had there.
std::optional<SegmentChain> chainOf(const StorageGraph &g, const Segments &segments,
                                    const std::function<bool(StorageId)> &isSmall);

// The tasks of the runs. A segment's first run makes all results that something reads before they
// are made again.
std::vector<TaskId> tasksOf(const StorageGraph &g, const SegmentChain &chain,
                            const std::vector<ChainRun> &runs);

} // namespace isthmus::plan
