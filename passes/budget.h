// Plans whose arena stays within a byte budget.
#pragma once

#include "ir/layout.h"
#include "passes/plan/planner.h"
#include "passes/problem.h"

namespace isthmus {

struct FittedPlan {
  bool isWithin = false;
  plan::PlanResult plan; // where it is not within: that of the least peak
  int64_t arenaBytes = 0;
  // The least budget that is known to be met with the same effort and seed: the arena of the plan
  // with the least peak. 0 where it was not looked for.
  int64_t smallestBytes = 0;
};

// Plans for `options.budgetBytes` as the arena's size, or for the least: a plan whose arena exceeds
// it is planned again for a tighter peak. `arenaOf` places a plan, and keeps what it likes of it:
// its last call is that of the result.
FittedPlan fitArena(const plan::Problem &p, plan::PlanOptions options,
                    llvm::function_ref<int64_t(const plan::PlanResult &)> arenaOf);

// The same for a problem that has no graph.
FittedPlan fitArena(const plan::Problem &p, const plan::PlanOptions &options);

struct FittedGraph {
  FittedPlan plan;
  Graph graph;
  Layout layout;
};

// `g` is an original (no clones), `p` its problem on `target`. Errors: a node that the target
// cannot run.
llvm::Expected<FittedGraph> fitGraph(const Graph &g, const GraphProblem &p, const Target &target,
                                     const plan::PlanOptions &options);

} // namespace isthmus
