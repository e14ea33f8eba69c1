// Schedules of a training graph: those of policies, and random ones that no policy would choose.
#pragma once

#include "passes/rewrite/problem.h"
#include <string>

namespace isthmus {

struct NamedSchedule {
  std::string name;
  plan::Schedule schedule;
};

// Schedules that keep random values, that repeat random ops, of every policy, and of the policy
// `collection` with random checkpoints. A policy that does not apply, for example because there is
// no matrix product, is left out. It is an error if a policy's schedule needs more memory than
// none.
llvm::Expected<std::vector<NamedSchedule>> schedulesOf(const Graph &g, const GraphProblem &p,
                                                       uint64_t seed);

// For a problem with alternatives: a schedule with random alternatives, and one of a short search.
std::vector<NamedSchedule> schedulesOfAllWays(const GraphProblem &p, uint64_t seed);

} // namespace isthmus
