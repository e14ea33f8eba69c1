// Resizes a forward graph to another number of examples (batch size).
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The first dimension of the graph's first input is the batch. Inputs with the same first dimension
// are resized, and so are the sizes that nodes spell out in their attributes. Parameters, states
// and constants stay. The result serves to plan, not to train: a factor that depends on the batch
// size, such as 1/32 in a hand-written loss, stays too.
//
// Errors: no input that has a dimension; gradients or clones, which are made for one batch size; a
// node that does not accept the new size, located.
llvm::Expected<Graph> withBatch(const Graph &g, int64_t batch);

} // namespace isthmus
