// Parameters that lie in a file of their own.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The graph with its parameters, and its states where the file has them, from a safetensors file:
// those of their names. Floats of another precision are rounded to the graph's, which a note says,
// as does one of tensors that the graph has no use for. Errors: a parameter that the file lacks;
// one of another shape.
llvm::Expected<Graph> withParameters(const Graph &g, const std::string &path);

} // namespace isthmus
