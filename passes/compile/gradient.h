// Gradients put on a graph that may have some already, or clones.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

struct GradientOptions {
  // Lists as matchValues takes them: the values to differentiate, and by which; empty: the loss, as
  // CompileOptions::step says.
  std::string ys, xs;
  // Each of `ys` is seeded by an input `seed.NAME`, and not by ones.
  bool seedsAreInputs = false;
};

// The original of `g`, in the element type and mode that `o` asks for, with the gradients as
// outputs, and without dead nodes.
llvm::Expected<Graph> withGradients(Graph g, const CompileOptions &o, const GradientOptions &how);

} // namespace isthmus
