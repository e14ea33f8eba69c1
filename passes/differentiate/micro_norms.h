// Batch norms whose statistics are those of micro-batches.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The forward graph in which each batch norm that trains takes the statistics of each of `parts`
// parts of the examples (ir/parts.h), and its running averages still move by those of the whole
// batch, which follow from the parts'. This is another function. Errors: fewer examples than parts.
llvm::Expected<Graph> withMicroNorms(const Graph &g, int64_t parts);

} // namespace isthmus
