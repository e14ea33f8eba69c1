// Plans whose arena stays within a byte budget: the planner, with packing.
#pragma once

#include "ir/layout.h"
#include "passes/plan/planner.h"
#include "passes/problem.h"

namespace isthmus {

// Plans with `arenaOf` by packing alone, for a problem that has no graph.
plan::PlanResult planArena(const plan::Problem &p, plan::PlanOptions options);

struct PlannedGraph {
  plan::PlanResult plan;
  Graph graph;
  Layout layout;
};

// `g` is an original (no clones), `p` its problem on `target`. Errors: a node that the target
// cannot run.
llvm::Expected<PlannedGraph> planGraph(const Graph &g, const GraphProblem &p, const Target &target,
                                       plan::PlanOptions options);

} // namespace isthmus
