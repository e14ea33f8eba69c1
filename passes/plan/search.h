// The searches of the planner. They stop when the editor's work has reached `untilWork`, or a
// little after, or the editor says so.
#pragma once

#include "passes/plan/editor.h"

namespace isthmus::plan {

// Of a schedule without repeats: moves runs to where less is live meanwhile.
void improveOrder(Editor &e);

// From where the editor stands down to the budget: again and again the gap whose drop takes most
// off the excess for its cost, priced exactly. With `siblings`, also drops that let their operands
// live on together with all that these make possible: slower, better on dense graphs. With `noise`
// above 0, prices are blurred by that share, for other starts. False if no drop helped any more.
bool descend(Editor &e, bool siblings, double noise, uint64_t untilWork);

struct Found {
  std::vector<uint32_t> ops; // empty: nothing within the budget
  double cost = 1e300;
  int64_t peak = 0; // of equal costs the lower, which is easier to place

  void offer(Found other) {
    if (isBetter(other.cost, other.peak))
      *this = std::move(other);
  }
  void offer(const Editor &e) {
    if (e.fits() && isBetter(e.cost(), e.timeline().peak()))
      *this = {e.timeline().ops(), e.cost(), e.timeline().peak()};
  }

  bool isBetter(double otherCost, int64_t otherPeak) const {
    return otherCost < cost - 1e-9 || (otherCost < cost + 1e-9 && otherPeak < peak);
  }
};

// Simulated annealing from where the editor stands, within the budget or not yet: takes a few
// repeated runs out and drops other gaps until the budget is met again (ruin and recreate; Schrimpf
// et al., 2000), drops, removes and moves single runs. `hot` is the first temperature, as a share
// of the mean cost of an op that might be repeated. Keeps the best in `found`.
void anneal(Editor &e, double hot, uint64_t untilWork, Found &found);
// The first part of it alone: until the budget is met.
void annealDown(Editor &e, uint64_t untilWork);

} // namespace isthmus::plan
