// What `explain` says, as text for a person and as JSON.
#pragma once

#include "passes/explain.h"
#include "tools/cli/planned.h"

namespace isthmus {

// The plan at another budget, found with the same effort.
struct OtherBudget {
  int64_t budgetBytes = 0;
  std::optional<double> us; // of a step; none where the budget cannot be met
};

struct ExplainedPlan {
  const Planned &plan;
  const Graph &original;
  const Explanation &why;
  const ExplainOptions &options;
  std::string model, target;
  std::optional<OtherBudget> more, less;
  bool isPriced = false; // both were looked for, and for the least budget `more` alone

  bool isByPolicy() const { return options.policy != Policy::None && options.policyUsed != "none"; }
  // Of `other` against this plan, microseconds a MiB; positive where less memory costs more.
  std::optional<double> price(const std::optional<OtherBudget> &other) const;
};

// "kept for 300 nodes, %a to %b", and why, without a full stop.
std::string fateText(const ExplainedPlan &e, const TensorFate &f);
std::string whyText(const ExplainedPlan &e, const TensorFate &f);
std::string whyText(const ExplainedPlan &e, const BottleneckFate &b);
std::string nodesText(size_t n); // "1 node", "7 nodes"
// Keeping it is what the plan does.
bool isTaken(const BottleneckFate &b);

std::string explanationText(const ExplainedPlan &e);
std::string explanationJson(const ExplainedPlan &e);

} // namespace isthmus
