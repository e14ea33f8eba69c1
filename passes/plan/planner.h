// The planner: the fastest schedule found whose arena stays within a budget.
//
// Any storage may be evicted in any interval between its uses and rematerialized any number of
// times, and ops may change places. Several greedy searches give starts, simulated annealing
// improves them; every schedule is priced exactly. One whose storages cannot be placed within the
// budget is tightened, from where it stands, and placed again. The same problem, budget, effort and
// seed give the same plan on every machine: limits are counts of work.
#pragma once

#include "passes/plan/problem.h"

#include <functional>
#include <optional>

namespace isthmus::plan {

struct SearchProgress {
  double share = 0; // of the work allowed
  double cost = 0;  // of the best within the budget so far, microseconds; 0: none yet
};

// How hard to look for a small arena.
struct PlacingLimits {
  int64_t enough = 0; // an arena of so many bytes will do; 0: the smaller the better
  double effort = 0;  // as in SearchOptions
};

struct SearchOptions {
  int64_t budgetBytes = 0; // the most that the arena may have; workspaces count, pinned storages
                           // do not
  bool smallest = false;   // instead: the least arena that is found
  double effort = 0;       // about seconds of one common core; 0: by the size of the problem
  uint64_t seed = 0;
  // The problem is a part that comes again and again in a larger one: storages count however small
  // they are, and it is not divided further.
  bool isSegment = false;
  // The arena that a schedule needs once its storages have offsets, or 0 if it cannot be placed at
  // all. Empty: its peak.
  std::function<int64_t(const Schedule &, const Evaluation &, const PlacingLimits &)> arenaOf;
  // Called now and then; false ends the search with the best so far. May be empty.
  std::function<bool(const SearchProgress &)> progress;
};

struct PlanResult {
  bool isWithin = false;  // the budget was met (always, with `smallest`)
  Schedule schedule;      // the best within the budget; otherwise that of the least arena found
  Evaluation planned;     // of the schedule, by `evaluate`
  int64_t arenaBytes = 0; // of the schedule
  Evaluation baseline;    // of the source order
  // The least arena found: as a budget, with the same effort and seed, it is met. 0 where it was
  // not looked for.
  int64_t smallestBytes = 0;
  int64_t lowestPeak = 0; // no schedule goes below
  // No schedule within the budget whose ops run first in this one's order costs less, microseconds
  // ("plan-order"; of any order where that is what running everything once costs); and what one
  // byte more would save of it. With alternatives: no schedule at all (leastCostAtAll). None
  // without a plan within the budget, where that knows none, or where the search was ended.
  std::optional<double> leastCost;
  double pricePerByte = 0;

  double overhead() const { return plan::overhead(planned.cost, baseline.cost); }
};

double defaultEffort(size_t numOps);
double effortOf(const SearchOptions &options, size_t numOps);

PlanResult planWithin(const Problem &p, const SearchOptions &options);

// The plan that somebody's schedule is: judged, placed by `options.arenaOf`, and held against
// `options.budgetBytes`. Where the schedule is not valid, `planned.error` says why, and nothing
// else holds.
PlanResult judgedPlan(const Problem &p, Schedule schedule, const SearchOptions &options);

} // namespace isthmus::plan
