// Losses put on a forward graph.
#pragma once

#include "ir/graph.h"
#include <optional>

namespace isthmus {

// For messages and help.
constexpr llvm::StringLiteral kLossNames =
    "cross_entropy, mse, l1, huber, bce, bce_logits, kl_div, mean";

struct LossOptions {
  // KIND, one of kLossNames, of the first output; KIND:%value, of that value; or "%value", any
  // value of the graph.
  std::string loss;
  int64_t classAxis = 1;
  std::optional<int64_t> ignoreIndex; // for cross_entropy: a label that does not count
  const Type *labels = nullptr;       // what will be fed as `labels`, if that is known
};

// KIND and %value of LossOptions::loss; either may be empty.
std::pair<llvm::StringRef, llvm::StringRef> splitLoss(llvm::StringRef loss);

// The value to differentiate. cross_entropy is the mean over all elements that count, with the
// classes on one axis, and adds an input `labels` (i64); where no label counts it is NaN, as
// PyTorch's. `mean` is that of the value itself; the others are means over all elements and add an
// input `target`. All make an output `loss`. A value is made an output if it is none.
// Graph::loss is set to it. Errors: no such loss or value, no output, an input of the graph, a
// value that is not floating-point, an axis that it lacks or that does not suit the labels.
llvm::Expected<ValueId> attachLoss(Graph &g, const LossOptions &options);

} // namespace isthmus
