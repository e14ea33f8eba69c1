// Runs a graph backwards by the op table's inverse rules. It shares no code with `isthmus invert`
// or with plans, so that tests can compare their rules and networks with the definition.
#pragma once

#include "tests/testing/interpret.h"

namespace isthmus {

// The values of the graph that follow from `known`, forwards by nodes and backwards by inverses.
// Each value is computed in the first way that is found. Weights must be known; other graph inputs
// need not be.
llvm::Expected<llvm::DenseMap<ValueId, Tensor>> deriveValues(const KernelTable &kernels,
                                                             const Graph &g,
                                                             llvm::DenseMap<ValueId, Tensor> known,
                                                             const InterpretOptions &options = {});

} // namespace isthmus
