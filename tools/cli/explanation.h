// The output of `explain`, as text for a person and as JSON.
#pragma once

#include "passes/inspect/explain.h"
#include "tools/cli/compiled.h"

namespace isthmus {

struct ExplainedPlan {
  const Compiled &plan;
  const Explanation &why;
  const ExplainOptions &options;
  std::string model, target;

  bool isByPolicy() const {
    return options.policy != Policy::None && options.policyUsed != PlannedBy::None;
  }
  // The value of a MiB at the budget, in microseconds, by the bound on the cost. None without a
  // budget, without a bound (as after an interrupt), or if the bound holds for every budget.
  std::optional<double> usPerMiB() const;
};

// "kept for 300 nodes, %a to %b", and the reason, without a full stop.
std::string decisionText(const ExplainedPlan &e, const TensorDecision &f);
std::string whyText(const ExplainedPlan &e, const TensorDecision &f);
std::string whyText(const ExplainedPlan &e, const BottleneckDecision &b);
std::string nodesText(size_t n); // "1 node", "7 nodes"
// Whether the plan keeps the bottleneck.
bool isTaken(const BottleneckDecision &b);

std::string explanationText(const ExplainedPlan &e);
std::string explanationJson(const ExplainedPlan &e);

} // namespace isthmus
