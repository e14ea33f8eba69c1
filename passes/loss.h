// Losses put on a forward graph's first output.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// For messages and help.
constexpr llvm::StringLiteral kLossNames =
    "cross_entropy, mse, l1, huber, bce, bce_logits, kl_div, mean";

struct LossOptions {
  // One of kLossNames, or "%value": any value of the graph.
  std::string loss;
  int64_t classAxis = 1;
};

// The value to differentiate. cross_entropy is the mean over all elements with the classes on one
// axis, and adds an input `labels` (i64); `mean` is that of the output itself; the others are means
// over all elements and add an input `target`. All take the first output and make an output `loss`.
// A value is made an output if it is none.
// Graph::loss is set to it. Errors: no such loss or value, no output, an output that is not
// floating-point, an axis that it lacks.
llvm::Expected<ValueId> attachLoss(Graph &g, const LossOptions &options);

} // namespace isthmus
