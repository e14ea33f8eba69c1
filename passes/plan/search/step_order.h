// Where a step may stand, apart from its operands: limits of the order by phases, and of ops that
// overwrite pinned storages.
#pragma once

#include "passes/plan/search/editable_schedule.h"

namespace isthmus::plan {

// A step of the task comes after `after` and before `before`; none: no limit.
struct StepLimits {
  StepId after, before;
};
StepLimits limitsByOverwrites(const EditableSchedule &s, TaskId t);

// Whether a step of the task may stand just before the step `before`, its operands aside.
bool mayStand(const EditableSchedule &s, TaskId t, StepId before);

// Where a step may go with every read bound as before: positions from `low` on and below `high`.
struct StepRange {
  LiveProfile::Position low, high;
};
StepRange rangeOf(const EditableSchedule &s, StepId r);

} // namespace isthmus::plan
