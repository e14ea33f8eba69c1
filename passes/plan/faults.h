// Checks a problem that a user supplies. Standard library only.
#pragma once

#include "passes/plan/problem.h"

#include <optional>

namespace isthmus::plan {

struct Fault {
  OpIndex op; // Op::kNone: the problem as a whole
  std::string why;
};

// Turns a problem as programs and files give it into the planner's form. There, an op that makes no
// bytes of its own (a view, the start of an offload, a wait) has one output, of 0 bytes, and the
// wait for a prefetch reads output 0 of its start and may leave out the others. Returns the first
// fault; none if the problem is valid.
std::optional<Fault> acceptGiven(Problem &p);

// The first op that breaks a rule of problem.h on alternatives, their readers, or ops that
// overwrite pinned storages; none if the problem is valid. Expects the reads, views and donations
// of each op to be in range.
std::optional<Fault> faultOf(const Problem &p);

} // namespace isthmus::plan
