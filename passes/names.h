// Finds values by names that a user gives.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The values that match a list of patterns, in the order of the graph. A pattern is a name of a
// value or node, with optional `%`, `*` and `?` as in a shell, and "quotes" around unusual names;
// commas separate patterns. An error if a pattern matches nothing; it suggests near names.
llvm::Expected<std::vector<ValueId>> matchValues(const Graph &g, llvm::StringRef patterns);

} // namespace isthmus
