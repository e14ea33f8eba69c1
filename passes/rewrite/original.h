// The graph that a rewritten one came from.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Leaves out clones and boundaries: who read them reads the origin, or the value passed. Nodes are
// in the source order again, and the record knows nothing of a plan. A graph without
// clones comes back as it is.
Graph originalOf(const Graph &g);

} // namespace isthmus
