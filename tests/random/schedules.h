// Schedules over a training graph: those that policies choose, and random ones that none would.
#pragma once

#include "passes/rewrite/problem.h"
#include <string>

namespace isthmus {

struct NamedSchedule {
  std::string name;
  plan::Schedule schedule;
};

// Values kept at random, ops run again at random, every policy, and the policy `collection` with
// random checkpoints. A policy that does not apply, as where there is no matrix product, is left
// out. An error if one needs more memory than none.
llvm::Expected<std::vector<NamedSchedule>> schedulesOf(const Graph &g, const GraphProblem &p,
                                                       uint64_t seed);

// Of a problem with alternatives: one with these among it at random, and one of a short search.
std::vector<NamedSchedule> schedulesOfAllWays(const GraphProblem &p, uint64_t seed);

} // namespace isthmus
