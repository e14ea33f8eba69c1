// A page of a schedule of a problem.
#pragma once

#include "tools/view/page.h"
#include "tools/view/problem_step.h"

namespace isthmus {

struct ProblemPage {
  std::string title, graph, target;
  std::optional<int64_t> budgetBytes;
  plan::PlanResult plan;
  std::string besideName;
  std::optional<plan::Schedule> beside; // a schedule of the same problem; it is valid
  std::vector<plan::PricePoint> curve;  // other plans: peaks with the reserved bytes, microseconds
};

// The page of `o.plan`, which is one of the problem.
Page pageOf(const plan::Problem &p, const ProblemPage &o, const ProblemLabels &labels);

} // namespace isthmus
