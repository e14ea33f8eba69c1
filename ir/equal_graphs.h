// Equality of graphs.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Compares names, types, order, attributes (bitwise), clauses, marks, initializers and data
// (bitwise; all NaNs are equal), loss, outputs and meta. Ignores ids, source locations and the
// graph's source file. If `reason` is given, it receives a difference, or "" if the graphs are
// equal.
bool equalGraphs(const Graph &a, const Graph &b, std::string *reason = nullptr);

} // namespace isthmus
