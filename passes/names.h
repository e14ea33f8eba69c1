// Finds values by names that a user gives.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The value with this name; or else the one that a forward node makes and whose name is this behind
// the path of a module: `linear_3` for `encoder.layers.3.linear_3`, as the file of a model may call
// it. Invalid if there is none, or several.
ValueId valueNamed(const Graph &g, llvm::StringRef name);

// The values that match a list of patterns, in the order of the graph. A pattern is a name of a
// value or node, with optional `%`, `*` and `?` as in a shell, and "quotes" around unusual names;
// commas separate patterns. What matches nothing is matched with names behind the paths of modules,
// as above. An error if a pattern matches nothing; it suggests near names.
llvm::Expected<std::vector<ValueId>> matchValues(const Graph &g, llvm::StringRef patterns);

} // namespace isthmus
