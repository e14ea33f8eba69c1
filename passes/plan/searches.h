// The searches of the planner. They stop when the state's work has reached `untilWork`, or a little
// after, or the state says so.
#pragma once

#include "passes/plan/search_state.h"

namespace isthmus::plan {

// Of a schedule without repeats: moves steps to where less is live meanwhile.
void reorder(SearchState &state);

struct GreedyOptions {
  // Also tries evictions whose operands live on together with all that these make possible: slower,
  // better on dense graphs.
  bool withSiblings = false;
  // Above 0, prices are blurred by that share, for other starts.
  double noise = 0;
};
// From where the state stands down to the budget: again and again the idle interval whose eviction
// takes most off the excess for its cost, priced exactly. False if no eviction helped any more.
bool searchGreedily(SearchState &state, const GreedyOptions &o, uint64_t untilWork);

// The best schedule within the budget that a search has met.
struct Found {
  std::vector<TaskId> tasks; // empty: none
  double cost = 1e300;
  int64_t peak = 0; // of equal costs the lower, which is easier to place

  explicit operator bool() const { return !tasks.empty(); }
  void offer(Found other) {
    if (isBetter(other.cost, other.peak))
      *this = std::move(other);
  }
  void offer(const SearchState &s) {
    if (s.fits() && isBetter(s.cost(), s.schedule().peak()))
      *this = {s.schedule().tasks(), s.cost(), s.schedule().peak()};
  }

  bool isBetter(double otherCost, int64_t otherPeak) const {
    return otherCost < cost - 1e-9 || (otherCost < cost + 1e-9 && otherPeak < peak);
  }
};

// Simulated annealing from where the state stands, within the budget or not yet: removes a few
// repeated steps and evicts other storages until the budget is met again (ruin and recreate;
// Schrimpf et al., 2000), evicts, removes and moves single steps. `hot` is the first temperature,
// as a share of the mean cost of a task that might be repeated. Keeps the best in `found`.
void anneal(SearchState &state, double hot, uint64_t untilWork, Found &found);
// The first part of it alone: until the budget is met.
void annealToBudget(SearchState &state, uint64_t untilWork);

} // namespace isthmus::plan
