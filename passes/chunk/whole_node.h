// A node at which the parts of a step meet.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The first forward node, views apart, that is in no chunk, reads what chunks give, and is read by
// later chunks; null if there is none. All parts of a step wait for it.
NodeId wholeNode(const Graph &g);

} // namespace isthmus
