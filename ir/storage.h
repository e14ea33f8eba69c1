// Which values are the same bytes.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// For each value the one whose storage it shares: a view's operand's, or its own.
std::vector<ValueId> storageRoots(const Graph &g);

} // namespace isthmus
