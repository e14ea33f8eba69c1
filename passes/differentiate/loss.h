// Adds a loss to a forward graph.
#pragma once

#include "ir/graph.h"
#include <optional>

namespace isthmus {

// For messages and help.
constexpr llvm::StringLiteral kLossNames =
    "cross_entropy, mse, l1, huber, bce, bce_logits, kl_div, mean";

enum class LossKind : uint8_t {
  Value, // a value of the graph; the sum of its elements if it has several
  Mean,
  CrossEntropy,
  Mse,
  L1,
  Huber,
  Bce,
  BceLogits,
  KlDiv
};
llvm::StringRef lossName(LossKind k); // "cross_entropy"; "" for Value

struct LossOptions {
  LossKind kind = LossKind::Value;
  std::string value;     // name of the value; empty: the first output (not allowed for kind Value)
  int64_t classAxis = 1; // for cross_entropy
  std::optional<int64_t> ignoreIndex; // for cross_entropy: the label that is ignored
  std::optional<Type> labels;         // type of the tensor that will be fed as `labels`, if known
};

// KIND, KIND:%value or %value.
llvm::Expected<LossOptions> parseLoss(llvm::StringRef text);

// Adds the loss and returns the value to differentiate. cross_entropy is the mean over all elements
// whose label is not ignored, with the classes on one axis, and adds an input `labels` (i64); it is
// NaN, as PyTorch's, where all labels are ignored. `mean` is the mean of the value itself; the
// other losses are means over all elements and add an input `target`. All but kind Value make an
// output `loss`; for Value, the named value becomes an output if it is none. Graph::loss is set to
// the loss. Errors: no such value, no output, an input of the graph, a value that is not
// floating-point, a class axis that the value lacks or that does not suit the labels.
llvm::Expected<ValueId> attachLoss(Graph &g, const LossOptions &options);

} // namespace isthmus
