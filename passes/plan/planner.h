// The planner: the fastest schedule found whose arena stays within a budget.
//
// Any storage may be evicted in any interval between its uses and rematerialized any number of
// times, and ops may change places. Several greedy searches find starts, and simulated annealing
// improves them; every schedule is priced exactly. If the storages of a schedule cannot be placed
// within the budget, its peak is lowered further and it is placed again. The same problem, budget,
// effort and seed give the same plan on every machine: limits are counts of work.
#pragma once

#include "passes/plan/problem.h"

#include <functional>
#include <optional>

namespace isthmus::plan {

struct SearchProgress {
  double share = 0; // of the work allowed
  double cost = 0;  // of the best plan within the budget so far, microseconds; 0: none yet
};

// How hard to look for a small arena.
struct PlacingLimits {
  int64_t enough = 0;              // an arena of this size will do; 0: the smaller the better
  double effort = 0;               // as in SearchOptions
  std::function<bool()> goOn = {}; // as in OffsetOptions
};

struct SearchOptions {
  int64_t budgetBytes = 0; // the most that the arena may have; workspaces count, pinned storages
                           // do not
  bool smallest = false;   // look for the smallest arena, even above the budget
  // With `smallest`: the most that the plan may add, as a share of the baseline's cost. The plan is
  // then the smallest within it, unless that exceeds a budget above 0, which a smaller one meets.
  double mostAdded = 1;
  // About seconds of one common core; 0: by the size of the problem. A search with more effort than
  // that has the plan of the default search too, so that it is never dearer.
  double effort = 0;
  uint64_t seed = 0;
  // The problem is a segment that recurs in a larger problem: even small storages may be evicted,
  // and it is not divided further.
  bool isSegment = false;
  // The arena bytes of a schedule once its storages have offsets, or 0 if it cannot be placed at
  // all. If empty, the peak is used.
  std::function<int64_t(const Schedule &, const Evaluation &, const PlacingLimits &)> arenaOf;
  // Called now and then; if it returns false, the search ends with the best plan so far. May be
  // empty.
  std::function<bool(const SearchProgress &)> progress;
};

struct PlanResult {
  bool isWithin = false;  // the budget was met (always, with `smallest`)
  Schedule schedule;      // the best within the budget, or else the one of the smallest arena
  Evaluation planned;     // of the schedule, by `evaluate`
  int64_t arenaBytes = 0; // of the schedule
  Evaluation baseline;    // of the source order
  // The smallest arena found, at any price. A search with this budget, the same effort and the same
  // seed meets it. 0 if the search did not look for it.
  int64_t smallestBytes = 0;
  int64_t lowestPeak = 0; // a lower bound on every schedule's peak
  // A lower bound, in microseconds, on the cost of every schedule within the budget whose ops first
  // run in this plan's order ("plan-order"; it holds for any order if it equals the cost of running
  // every op once). `pricePerByte`: how much one more byte of budget would lower it. With
  // alternatives: a bound on every schedule (leastCostAtAll). None without a plan within the
  // budget, if leastCostAtAll gives none, or if the search was stopped.
  std::optional<double> leastCost;
  double pricePerByte = 0;

  double overhead() const { return plan::overhead(planned.cost, baseline.cost); }
};

double defaultEffort(size_t numOps);
double effortOf(const SearchOptions &options, size_t numOps);

PlanResult planWithin(const Problem &p, const SearchOptions &options);

// Makes a plan of a given schedule: judged, placed by `options.arenaOf`, and compared with
// `options.budgetBytes`. If the schedule is invalid, `planned.error` says why, and the other fields
// mean nothing.
PlanResult judgedPlan(const Problem &p, Schedule schedule, const SearchOptions &options);

} // namespace isthmus::plan
