// Checks a problem that a user supplies. Standard library only.
#pragma once

#include "passes/plan/problem.h"

#include <optional>

namespace isthmus::plan {

struct Fault {
  OpIndex op;
  std::string why;
};

// The first op that breaks a rule of problem.h on alternatives, their readers, or ops that
// overwrite pinned storages; none if the problem is valid. Expects the reads, views and donations
// of each op to be in range.
std::optional<Fault> faultOf(const Problem &p);

} // namespace isthmus::plan
