// Batch norms whose statistics are those of micro-batches.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The forward graph in which each batch norm that trains takes the statistics of each of `parts`
// equal parts of the examples, and its running averages still move by those of the whole batch,
// which follow from the parts'. This is another function. Errors: a number of examples that the
// parts do not divide.
llvm::Expected<Graph> withMicroNorms(const Graph &g, int64_t parts);

} // namespace isthmus
