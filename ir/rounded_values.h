// Which values of a rewritten graph may be rounded otherwise than in its original.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// By value: whether it depends on an inverse, or on sums of chunks that were added.
llvm::BitVector roundedValues(const Graph &g);

// Notes in the graph's facts (Graph::meta) which outputs these are, for a form that does not keep
// what chunks stand for; `roundedValues` reads it.
void noteRoundedOutputs(Graph &g);

} // namespace isthmus
