// The lines of a sweep: the ways of planning that it compares.
#pragma once

#include "tools/cli/options.h"
#include "tools/sweep/axis.h"

namespace isthmus {

struct SweepMode {
  std::string name; // "linear", "70%"
  PlanFlags plan;
};

// For a sweep over budgets, one mode, whose budget is set at each point. Otherwise the modes of
// `policies`, a list of linear, sqrt, constant, policies and budgets; if it is empty, the one plan
// that the flags choose, or else linear, sqrt and constant. Usage errors: two of these are given,
// or flags that fit none.
llvm::Expected<std::vector<SweepMode>> sweepModes(SweepAxis axis, const std::string &policies,
                                                  const PlanFlags &flags);

} // namespace isthmus
