// The loss of a graph.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The value that the forward part computes: Graph::loss, else the last scalar output of a forward
// node; null if there is neither.
ValueId lossOf(const Graph &g);

} // namespace isthmus
