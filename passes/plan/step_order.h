// Where a step may stand, beside what it reads: what the order by phases asks, and ops that
// overwrite something pinned.
#pragma once

#include "passes/plan/editable_schedule.h"

namespace isthmus::plan {

// Steps that a step of the task comes after, and before; none: any place will do.
struct StepLimits {
  StepId after, before;
};
StepLimits limitsByOverwrites(const EditableSchedule &s, TaskId t);

// Whether a step of the task may stand just before the step `before`. What it reads is another
// question.
bool mayStand(const EditableSchedule &s, TaskId t, StepId before);

// Where a step may go without changing what reads what: positions from `low` on and below `high`.
struct StepRange {
  LiveProfile::Position low, high;
};
StepRange rangeOf(const EditableSchedule &s, StepId r);

} // namespace isthmus::plan
