// What a problem that somebody gave may get wrong. Standard library only.
#pragma once

#include "passes/plan/problem.h"

#include <optional>

namespace isthmus::plan {

struct Fault {
  OpIndex op;
  std::string why;
};

// The first op that is not what problem.h says of alternatives, their readers, and ops that
// overwrite something; none if all is well. Reads, views and donations of each op by itself are in
// range.
std::optional<Fault> faultOf(const Problem &p);

} // namespace isthmus::plan
