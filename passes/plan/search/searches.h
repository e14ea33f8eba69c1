// The searches of the planner. They stop when the state's work has reached `untilWork`, or a little
// later, or when the state says so.
#pragma once

#include "passes/plan/search/search_state.h"

namespace isthmus::plan {

// Moves the steps of a schedule without repeats to places where fewer bytes are live.
void reorder(SearchState &state);

struct GreedyOptions {
  // Also tries evictions that keep the operands live, together with all evictions that these
  // operands then allow: slower, better on dense graphs.
  bool withSiblings = false;
  // If above 0, prices are blurred by this share, for different starts.
  double noise = 0;
};
// Lowers the current schedule's peak to the budget: evicts, again and again, in the idle interval
// with the largest fall of the excess for its cost, priced exactly. False if no eviction helps any
// more.
bool searchGreedily(SearchState &state, const GreedyOptions &o, uint64_t untilWork);

// The best schedule within the budget that a search has met.
struct Found {
  std::vector<TaskId> tasks; // empty: none
  double cost = 1e300;
  int64_t peak = 0; // breaks ties of cost: a lower peak is easier to place

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

// The least that a quarter of an annealing must gain, in microseconds, for the next one to follow:
// so much, and so much that this many quarters like it would lead below another plan's cost.
struct LeastGain {
  double ofPart = 0;
  double toBeat = 1e300, parts = 0;
};

// Simulated annealing from the current schedule, whether or not it is within the budget: removes a
// few repeated steps and evicts other storages until the budget is met again (ruin and recreate;
// Schrimpf et al., 2000), and evicts, removes and moves single steps. `hot` is the first
// temperature, as a share of the mean cost of a task that might be repeated. Keeps the best
// schedule in `found`. Ends early after a quarter of the work that gains less than `least` says.
void anneal(SearchState &state, double hot, uint64_t untilWork, const LeastGain &least,
            Found &found);
// Only the first part of `anneal`: until the budget is met.
void annealToBudget(SearchState &state, uint64_t untilWork);

} // namespace isthmus::plan
