// What a plan promises.
#pragma once

#include "passes/plan/planner.h"

#include <cstdint>
#include <optional>
#include <string>

namespace isthmus {

struct Figures {
  int64_t baselinePeakBytes = 0, predictedPeakBytes = 0, arenaBytes = 0, persistentBytes = 0,
          outputBytes = 0;
  double recomputeOverhead = 0;                 // the share of the original cost that is added
  std::optional<double> lowerBoundOverhead = 0; // of schedules such as `boundModel` says; if known
  std::string boundModel = "any-order";         // none costs less than running everything once
  std::optional<int64_t> lowerBoundBytes, smallestBudgetBytes; // where known
  std::string policyUsed = "none";
  std::string mode;  // "train", "eval" or "as-written"
  std::string costs; // "estimated" or "measured": those of the target; empty: a problem's own
  size_t nodes = 0, clones = 0;
  int64_t hostBytes = 0; // taken of the host's memory, by what goes there and comes back
  size_t transfers = 0;  // to the host and back
  size_t inversions = 0; // storages rebuilt from what was made of them
  double planSeconds = 0;
};

// Of a plan for a problem, whether or not that was made of a graph.
Figures figuresOf(const plan::Problem &p, const plan::PlanResult &found);
// What a search found about costs that cannot be gone below.
void setBound(Figures &f, const plan::PlanResult &found);

} // namespace isthmus
