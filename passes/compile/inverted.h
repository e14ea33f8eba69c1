// The inverse of a graph that may have gradients or clones already.
#pragma once

#include "passes/compile/compile.h"
#include "passes/invert/invert.h"

namespace isthmus {

// Of the original of `g`, in the element type and mode that `o` asks for: from `ys` back to `xs`,
// lists as matchValues takes them. Errors: as inverseOf's.
llvm::Expected<Graph> inverted(Graph g, const CompileOptions &o, llvm::StringRef ys,
                               llvm::StringRef xs, size_t iterations = kUsualIterations);

} // namespace isthmus
