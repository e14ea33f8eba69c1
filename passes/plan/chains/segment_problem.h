// The planning problem of one segment of a training step. All segments after it are one op, the
// rest. Standard library only.
#pragma once

#include "passes/plan/chains/segments.h"

#include <map>

namespace isthmus::plan {

struct SegmentProblem {
  Problem problem;
  std::vector<TaskId> taskOf;       // by op; none for ops that stand for no task
  std::map<StorageId, Read> madeBy; // the op that makes the storage, if the problem has one
  OpIndex rest = Op::kNone;         // none in the last segment's problem
};

// Storages made by earlier segments appear as ops of zero cost that run once. `kept`: the storages
// that earlier segments still read after this one; they must be live at its end. The rest reads the
// storages that later segments read, and makes those that they return. Its workspace fills the
// budget beside its operands, its results and the storages that must be held because they cannot be
// rematerialized afterwards. If those exceed the budget, the workspace is negative and no plan is
// within the budget.
SegmentProblem problemOf(uint32_t segment, const StorageGraph &g, const Segments &segments,
                         const std::vector<StorageId> &kept, int64_t budget);

} // namespace isthmus::plan
