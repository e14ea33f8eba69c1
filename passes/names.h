// Values that a person names.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The values that a list of patterns names, in order of the graph: names of values or nodes, `%`
// optional, `*` and `?` as in a shell, "quotes" around odd ones, comma between. Every pattern must
// match; near names are suggested.
llvm::Expected<std::vector<ValueId>> matchValues(const Graph &g, llvm::StringRef patterns);

} // namespace isthmus
