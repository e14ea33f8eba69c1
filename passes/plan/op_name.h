// How messages call the ops of a problem. Standard library only.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// By its name, in quotes; one that has no name by its index: "op 3".
inline std::string calledInMessages(const Problem &p, OpIndex i) {
  const std::string &name = p.ops[i].name;
  return name.empty() ? "op " + std::to_string(i) : "'" + name + "'";
}

} // namespace isthmus::plan
