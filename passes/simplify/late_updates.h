// Moves updates behind the last reader of the graph input that they may overwrite.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The same nodes in another order: an update that may overwrite a graph input stands behind the
// last node that reads that input. So it does overwrite it, in this order and in any order that a
// plan makes of it. `g` was not planned. Linear in the graph.
Graph withLateUpdates(Graph g);

} // namespace isthmus
