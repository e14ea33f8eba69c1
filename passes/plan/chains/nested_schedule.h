// Composes a schedule from plans of the training step's segments, each nested in the one before.
//
// In the problem of a segment, all segments after it are one op, the rest. It reads the storages
// that they read and makes the gradients that they return. Its workspace is so large that nothing
// else fits beside it, except storages that cannot be rematerialized afterwards. The plan
// rematerializes all others from the operands of the rest, as inverses can, and ends with the
// storages from which the backward part of the segment before it begins. So the peak is that of the
// worst segment, whatever the depth of a network of invertible blocks, and equal segments are
// planned once. A search that evicts one value after the other rarely finds such schedules:
// evicting a chain saves memory only if all its values are evicted. Standard library only.
#pragma once

#include "passes/plan/storages/storage_graph.h"

#include <functional>

namespace isthmus::plan {

// A schedule of a segment's problem whose peak is within the budget, as cheap as possible; empty if
// none is found.
using SegmentPlanner = std::function<Schedule(const Problem &, int64_t budget)>;

// The tasks of a schedule whose peak is within the budget by `evaluate`. None if a segment has no
// plan, or if the step has fewer than two segments of `leastTasks` forward tasks or more
// (segmentsOf).
std::vector<TaskId> nestedSchedule(const StorageGraph &g, int64_t budget, uint32_t leastTasks,
                                   const SegmentPlanner &plan);

} // namespace isthmus::plan
