// Losses put on a forward graph.
#pragma once

#include "ir/graph.h"
#include <optional>

namespace isthmus {

// For messages and help.
constexpr llvm::StringLiteral kLossNames =
    "cross_entropy, mse, l1, huber, bce, bce_logits, kl_div, mean";

enum class LossKind : uint8_t {
  Value, // a value of the graph; of several elements, their sum
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
  std::string value;     // its name; empty: the first output, which `Value` does not take
  int64_t classAxis = 1; // for cross_entropy
  std::optional<int64_t> ignoreIndex; // for cross_entropy: a label that does not count
  std::optional<Type> labels;         // what will be fed as `labels`, if that is known
};

// KIND, KIND:%value or %value.
llvm::Expected<LossOptions> parseLoss(llvm::StringRef text);

// The value to differentiate. cross_entropy is the mean over all elements that count, with the
// classes on one axis, and adds an input `labels` (i64); where no label counts it is NaN, as
// PyTorch's. `mean` is that of the value itself; the others are means over all elements and add an
// input `target`. All make an output `loss`. A value is made an output if it is none.
// Graph::loss is set to it. Errors: no such value, no output, an input of the graph, a value that
// is not floating-point, an axis that it lacks or that does not suit the labels.
llvm::Expected<ValueId> attachLoss(Graph &g, const LossOptions &options);

} // namespace isthmus
