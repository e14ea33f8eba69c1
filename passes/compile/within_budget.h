// Plans whose arena stays within a byte budget: the planner, with offset assignment.
#pragma once

#include "ir/layout.h"
#include "passes/place/place_schedule.h"
#include "passes/plan/planner.h"
#include "passes/rewrite/problem.h"

namespace isthmus {

struct PlacedPlan {
  plan::PlanResult plan;
  ScheduleLayout layout; // of its schedule, with its arena
};
// Plans with `arenaOf` by offset assignment alone, for a problem that has no graph.
PlacedPlan planArena(const plan::Problem &p, plan::SearchOptions options);

// plan::judgedPlan with `arenaOf` by offset assignment alone; its arena is the least that is known.
plan::PlanResult replayed(const plan::Problem &p, plan::Schedule s, plan::SearchOptions options);

struct CurvePoint {
  int64_t budgetBytes = 0;
  plan::PlanResult plan;
};
// Plans for each of the budgets, which fall, as `options` say but for the budget. None costs more
// than one for less; after the first that cannot be met no other is tried. `options.progress` sees
// one search after the other as parts of one.
std::vector<CurvePoint> planCurve(const plan::Problem &p, const std::vector<int64_t> &budgets,
                                  const plan::SearchOptions &options);

// Takes the plan of a smaller budget wherever it costs less.
void makeMonotone(const plan::Problem &p, std::vector<CurvePoint> &falling);

// Whether an arena is as small as one would ask for: within 1 % of the peak.
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
