// Plans whose arena fits a byte budget: the planner combined with offset assignment.
#pragma once

#include "ir/layout.h"
#include "passes/place/place_schedule.h"
#include "passes/plan/planner.h"
#include "passes/rewrite/problem.h"

namespace isthmus {

struct PlacedPlan {
  plan::PlanResult plan;
  ScheduleLayout layout; // layout and arena of the plan's schedule
};
// Plans a problem that has no graph; `arenaOf` is the arena of an offset assignment.
PlacedPlan planArena(const plan::Problem &p, plan::SearchOptions options);

// plan::judgedPlan of schedule `s`; `arenaOf` is the arena of an offset assignment. Its arena
// becomes the smallest known budget.
plan::PlanResult replayed(const plan::Problem &p, plan::Schedule s, plan::SearchOptions options);

struct CurvePoint {
  int64_t budgetBytes = 0;
  plan::PlanResult plan;
};
// Plans for each of the budgets, which fall; `options` holds for all of them, except its budget. No
// plan costs more than the plan of a smaller budget. The curve ends after the first budget that
// cannot be met. `options.progress` sees the searches as parts of one search.
std::vector<CurvePoint> planCurve(const plan::Problem &p, const std::vector<int64_t> &budgets,
                                  const plan::SearchOptions &options);

// Replaces a plan by the plan of a smaller budget where that costs less.
void makeMonotone(const plan::Problem &p, std::vector<CurvePoint> &falling);

// Whether an arena is small enough: within 1 % of the peak.
inline bool isCloseToPeak(int64_t arenaBytes, int64_t peakBytes) {
  return double(arenaBytes) <= 1.01 * double(peakBytes);
}

struct PlannedGraph {
  plan::PlanResult plan;
  Graph graph;
  Layout layout;
};

// `g` is an original (no clones), `p` its problem on `target`. Errors: a node that the target
// cannot run.
llvm::Expected<PlannedGraph> planGraph(const Graph &g, const GraphProblem &p, const Target &target,
                                       plan::SearchOptions options);

} // namespace isthmus
