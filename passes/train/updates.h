// The update part of a training step: an optimizer's node for each parameter that has a gradient.
//
// Before: a graph with the gradients of its loss by parameters among its outputs. After: gradients
// are no outputs any more, so that each dies at its last reader. The optimizer's state is added as
// inputs; parameters and state have outputs with their next values. An update stands right behind
// its gradient, or behind the last reader of the parameter if that comes later, so that its results
// may overwrite the parameter and the state. Clipping by the global norm needs all gradients before
// the first update, so all of them are live at once. Linear in the graph.
#pragma once

#include "ir/graph.h"
#include <optional>

namespace isthmus {

// Hyperparameters of the ops `sgd`, `momentum`, `adam` and `adamw`, whose formulas are PyTorch's.
struct OptimizerOptions {
  enum Kind : uint8_t { Sgd, Adam, AdamW } kind = Adam;
  double momentum = 0; // of Sgd
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8; // of Adam and AdamW
  double weightDecay = 0;
  std::optional<double> clipNorm; // gradients are scaled down to this global norm
};
llvm::StringRef optimizerName(OptimizerOptions::Kind k); // "sgd", "adam", "adamw"
std::optional<OptimizerOptions::Kind> parseOptimizer(llvm::StringRef name);
llvm::ArrayRef<llvm::StringRef> optimizerNames();

struct UpdatedGraph {
  Graph graph;
  ValueId rate;               // the learning rate, an input to feed at each step
  size_t parameters = 0;      // number of parameters that are updated
  int64_t gradientBytes = 0;  // of all gradients together
  int64_t optimizerBytes = 0; // of the optimizer's state
};

// `g` is an original (no clones). Errors: no gradient of a parameter; a graph that updates its
// parameters already.
llvm::Expected<UpdatedGraph> withUpdates(const Graph &g, const OptimizerOptions &o);

} // namespace isthmus
