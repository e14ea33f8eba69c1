// Updates that wait until nobody reads what they may overwrite.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The same nodes, but that an update which might lie in the place of a graph input stands behind
// the last node that reads that input: so it does lie there, in this order and in any that a plan
// makes of it. `g` was not planned. Linear in the graph.
Graph withLateUpdates(Graph g);

} // namespace isthmus
