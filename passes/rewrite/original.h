// Recovers the original of a rewritten graph.
#pragma once

#include "ir/provenance.h"

namespace isthmus {

// Removes clones and stand-ins (boundaries, transfers, encodings, inverses): their readers read the
// origin, or the value that the stand-in replaces. Nodes are in the source order again, and policy,
// target and budget are cleared from the record.
Graph originalOf(const Graph &g);

// The last node of each inverse, whose first result replaces the value that it restores.
std::vector<NodeId> inversesIn(const Graph &g);

} // namespace isthmus
