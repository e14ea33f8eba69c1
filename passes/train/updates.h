// The update part of a training step: an optimizer's node for each parameter that has a gradient.
//
// Before: a graph whose outputs have gradients of its loss by parameters. After: the gradients are
// outputs no more, so that each dies at the node that uses it up; parameters and the optimizer's
// state, which are new inputs, have outputs with their next values. An update stands right behind
// its gradient, or behind the last node that reads the parameter where that comes later, so that
// its results may take the places of what they replace. Clipping by the global norm needs all
// gradients before the first update, and so all of them at once. Linear in the graph.
#pragma once

#include "ir/graph.h"
#include <optional>

namespace isthmus {

// The formulas of the rows `sgd`, `momentum`, `adam` and `adamw`, which are PyTorch's.
struct OptimizerOptions {
  enum Kind : uint8_t { Sgd, Adam, AdamW } kind = Adam;
  double momentum = 0; // of Sgd
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8; // of Adam and AdamW
  double weightDecay = 0;
  std::optional<double> clipNorm; // gradients are scaled down to this norm of all of them together
};
llvm::StringRef optimizerName(OptimizerOptions::Kind k); // "sgd", "adam", "adamw"
std::optional<OptimizerOptions::Kind> parseOptimizer(llvm::StringRef name);
llvm::ArrayRef<llvm::StringRef> optimizerNames();

struct UpdatedGraph {
  Graph graph;
  ValueId rate;               // an input, the learning rate, to be fed at each step
  size_t parameters = 0;      // that are updated
  int64_t gradientBytes = 0;  // of all gradients together
  int64_t optimizerBytes = 0; // of the optimizer's state
};

// `g` is an original (no clones). Errors: no gradient of a parameter; updates that are there
// already.
llvm::Expected<UpdatedGraph> withUpdates(const Graph &g, const OptimizerOptions &o);

} // namespace isthmus
