// The planning problem of one segment of a training step, in which all segments after it are one
// op, the rest. Standard library only.
#pragma once

#include "passes/plan/segments.h"

#include <map>

namespace isthmus::plan {

struct SegmentProblem {
  Problem problem;
  std::vector<TaskId> taskOf;       // by op; none for what is no task
  std::map<StorageId, Read> madeBy; // the op that makes it, if the problem has one
  OpIndex rest = Op::kNone;         // none in the last segment's
};

// What segments before have made are ops that run once and take no time. `kept`: what segments
// before read after this one, which has to be there at its end. The rest reads what goes on, makes
// what comes back, and fills the budget but for what cannot be brought back; where that is more
// than the budget, its workspace is below zero, and no plan meets it.
SegmentProblem problemOf(uint32_t segment, const StorageGraph &g, const Segments &segments,
                         const std::vector<StorageId> &kept, int64_t budget);

} // namespace isthmus::plan
