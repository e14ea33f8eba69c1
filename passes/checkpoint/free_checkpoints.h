// Further checkpoints that take no memory at the peak.
#pragma once

#include "passes/plan/checkpoint_schedule.h"

namespace isthmus {

// A choice of checkpoints (plan::checkpointSchedule) and what follows from it.
struct CheckpointPlan {
  std::vector<std::vector<bool>> isCheckpoint; // by op and output
  plan::Schedule schedule;
  plan::Evaluation planned;
};

// Adds the results of recomputed ops to the checkpoints where the peak stays as low and no op runs
// more often, from the last op backwards: what is made last is read first by the backward part, and
// is kept for the shortest time. Ranges of ops are tried whole and then in halves. On return, none
// of the ops that are still recomputed can be kept alone; in problems of more than some ten
// thousand ops, none of the smallest ranges that were tried. `c` is valid and `p` its problem.
void addFreeCheckpoints(const plan::Problem &p, CheckpointPlan &c);

} // namespace isthmus
