// The names of a problem's ops in messages. Standard library only.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// The op's name in quotes, or its index if it has no name: "op 3".
inline std::string calledInMessages(const Problem &p, OpIndex i) {
  const std::string &name = p.ops[i].name;
  return name.empty() ? "op " + std::to_string(i) : "'" + name + "'";
}

} // namespace isthmus::plan
