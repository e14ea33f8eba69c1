// The lines of a sweep: the ways to plan that are held beside each other.
#pragma once

#include "tools/cli/options.h"
#include "tools/sweep/axis.h"

namespace isthmus {

struct SweepMode {
  std::string name; // "linear", "70%"
  PlanFlags plan;
};

// Over budgets, one, whose budget is set at each point. Else those of `policies`, a list of linear,
// sqrt, constant, policies and budgets; where it is empty, the one plan that the flags choose, or
// linear, sqrt and constant. Usage errors: two of these, or flags that fit none.
llvm::Expected<std::vector<SweepMode>> sweepModes(SweepAxis axis, const std::string &policies,
                                                  const PlanFlags &flags);

} // namespace isthmus
