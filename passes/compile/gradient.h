// Adds gradients to a graph that may already have gradients or clones.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

struct GradientOptions {
  // Lists of names as matchValues takes them: the values to differentiate, and the values to
  // differentiate by. Empty `ys`: the loss is differentiated, as CompileOptions::step says.
  std::string ys, xs;
  // Each y is seeded by an input `seed.NAME` instead of ones.
  bool seedsAreInputs = false;
};

// The original of `g` in the element type and mode of `o`, with the gradients as outputs and
// without dead nodes.
llvm::Expected<Graph> withGradients(Graph g, const CompileOptions &o, const GradientOptions &how);

} // namespace isthmus
