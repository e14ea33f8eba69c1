// What a problem that somebody gave may get wrong about its alternatives. Standard library only.
#pragma once

#include "passes/plan/problem.h"

#include <optional>

namespace isthmus::plan {

struct Fault {
  OpIndex op;
  std::string why;
};

// The first alternative, or the first reader of one, that is not what problem.h says; none if all
// is well. Reads, views and donations of each op by itself are in range.
std::optional<Fault> faultOfAlternatives(const Problem &p);

} // namespace isthmus::plan
