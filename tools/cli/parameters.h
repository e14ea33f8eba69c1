// Loads parameters from a file of their own.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The graph with its parameters, and its states if the file has them, from the tensors of the same
// names in a safetensors file. Floats of another precision are rounded to the graph's; a note says
// so, and another names tensors that the graph does not use. Errors: the file lacks a parameter; a
// shape differs; the tensors do not have the digest that the file records.
llvm::Expected<Graph> withParameters(const Graph &g, const std::string &path);

} // namespace isthmus
