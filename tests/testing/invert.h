// Runs a graph backwards by the op table's inverse rules: what `isthmus invert` and plans rest on,
// without either, so that rules and networks can be held against their definition.
#pragma once

#include "tests/testing/interpret.h"

namespace isthmus {

// The values of the graph that follow from `known`, forwards by nodes and backwards by inverses,
// each computed by the first way that comes up. Weights must be known; other graph inputs need not
// be.
llvm::Expected<llvm::DenseMap<ValueId, Tensor>> deriveValues(const KernelTable &kernels,
                                                             const Graph &g,
                                                             llvm::DenseMap<ValueId, Tensor> known,
                                                             const InterpretOptions &options = {});

} // namespace isthmus
