// Which values of a rewritten graph may be rounded otherwise than in its original.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// By value: whether it depends on an inverse, or on sums of chunks that were added, or is an output
// of which the file says so (OutputRole::isRounded).
llvm::BitVector roundedValues(const Graph &g);

// Sets the roles of these outputs, for a form that does not keep what chunks stand for.
void noteRoundedOutputs(Graph &g);

} // namespace isthmus
