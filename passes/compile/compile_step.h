// The steps of compile(), by which a graph can be looked at on its way.
#pragma once

#include "ir/graph.h"
#include <functional>

namespace isthmus {

// In the order in which they run.
enum class CompileStep : uint8_t {
  Convert,       // to the precision and the mode that were asked for
  Differentiate, // the backward pass
  Lower,         // to forms that the device's kernels have
  Chunk,         // the chunks and micro-batches that were asked for, if any
  Rewrite,       // the plan: clones, inverses, transfers, chunks that it chose
};

llvm::ArrayRef<llvm::StringRef> compileStepNames(); // in that order
llvm::StringRef compileStepName(CompileStep s);

// Sees the graph after a step, which is not changed. A step that is repeated is seen each time.
using AfterStep = std::function<void(CompileStep, const Graph &)>;

} // namespace isthmus
