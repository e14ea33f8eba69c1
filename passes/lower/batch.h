// A forward graph for another number of examples.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The first size of the graph's first input counts examples; inputs of the same first size change
// with it, and so do the sizes that nodes spell out, where they say how large their result is.
// Parameters, states and constants stay. It serves plans: a factor that the graph has for its
// number of examples, such as 1/32 in a loss of its own, stays too.
//
// Errors: no input that has a size; gradients or clones, which are for one number of examples; a
// node to which another number makes no sense, located.
llvm::Expected<Graph> withBatch(const Graph &g, int64_t batch);

} // namespace isthmus
