// Schedules put together from plans of the step's segments, one within the other.
//
// In the problem of a segment all segments after it are one op, the rest: it reads what they read,
// makes the gradients that come back, and has so large a workspace that nothing else can be held
// beside it but what cannot be brought back from what is there afterwards. The plan brings all else
// back from what the rest reads anyhow, as inverses can, and leaves behind what the segment before
// it begins with. So the peak is that of the worst segment, in a network of any depth whose blocks
// can be undone, and segments that are alike are planned once. A search that evicts one value after
// the other hardly finds such schedules: only all values of a chain together gain anything.
// Standard library only.
#pragma once

#include "passes/plan/storage_graph.h"

#include <functional>

namespace isthmus::plan {

// A schedule of a segment's problem whose peak is within the budget, the cheaper the better; empty
// if none is found.
using SegmentPlanner = std::function<Schedule(const Problem &, int64_t budget)>;

// The tasks of a schedule whose peak is within the budget, by `evaluate`; none where a segment has
// no plan, or where segments of `leastTasks` forward tasks or more (segmentsOf) are less than two.
std::vector<TaskId> nestedSchedule(const StorageGraph &g, int64_t budget, uint32_t leastTasks,
                                   const SegmentPlanner &plan);

} // namespace isthmus::plan
