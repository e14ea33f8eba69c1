// Inverts a graph that may have gradients or clones.
#pragma once

#include "passes/compile/compile.h"
#include "passes/invert/invert.h"

namespace isthmus {

// The inverse of the original of `g`, in the element type and mode of `o`: computes `xs` from `ys`,
// which are lists of names as matchValues takes them. Errors: those of matchValues and inverseOf.
llvm::Expected<Graph> inverted(Graph g, const CompileOptions &o, llvm::StringRef ys,
                               llvm::StringRef xs, size_t iterations = kUsualIterations);

} // namespace isthmus
