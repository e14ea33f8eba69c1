// The inverse of a graph: from what it makes back to what it was given, by the rules of the op
// table. What samples from a flow.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// A forward graph whose inputs are `ys`, by their names, and whose outputs are `xs`. Inputs of `g`
// that are not among `xs` stay inputs: parameters, and what conditions it. `xs` are inputs of `g`
// or other values; of the latter no input of kind `input` that they were made of is known.
// The nodes are forward nodes of `g`, which run again as they are, and what rules make. An error of
// kind Unsupported names the nodes that cannot be undone.
// `iterations`: of each sum that is marked as a contraction's.
constexpr size_t kUsualIterations = 100;
llvm::Expected<Graph> inverseOf(const Graph &g, llvm::ArrayRef<ValueId> ys,
                                llvm::ArrayRef<ValueId> xs, size_t iterations = kUsualIterations);

} // namespace isthmus
