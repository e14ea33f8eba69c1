// Whether two graphs say the same.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Names, types, order, attributes (to the bit), clauses, marks, initializers and data (to the bit;
// a NaN equals any NaN), loss, outputs and meta. Not: ids, places in a source file, the graph's
// source file. Where they differ, `reason` says at what, if given.
bool equalGraphs(const Graph &a, const Graph &b, std::string *reason = nullptr);

} // namespace isthmus
