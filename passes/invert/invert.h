// The inverse of a graph: computes its inputs from its outputs, by the inverse rules of the op
// table. It serves to sample from a flow.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// A forward graph whose inputs are `ys`, by their names, and whose outputs are `xs`. Other inputs
// of `g` that the inverse reads stay inputs: parameters and conditioning inputs. `xs` are inputs or
// other values of `g`; the inputs of kind `input` that an x depends on count as unknown. The nodes
// are copies of forward nodes of `g` and nodes made by inverse rules. An error of kind Unsupported
// names the nodes that cannot be inverted. `iterations`: for each sum with the mark #contraction.
constexpr size_t kUsualIterations = 100;
llvm::Expected<Graph> inverseOf(const Graph &g, llvm::ArrayRef<ValueId> ys,
                                llvm::ArrayRef<ValueId> xs, size_t iterations = kUsualIterations);

} // namespace isthmus
