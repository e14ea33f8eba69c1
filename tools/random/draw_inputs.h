// Contents of a graph's inputs for tests that run it.
#pragma once

#include "ir/graph.h"
#include "tools/random/draw.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>

namespace isthmus {

// By name, so that a rewritten or reduced graph finds its inputs.
using NamedTensors = std::map<std::string, Tensor>;

// Follows the initializers: data, fills, intervals of uniform ones; otherwise floats in [-1, 1) and
// integers in [0, 4). An input's contents depend on `seed` and its own name, type and initializer.
NamedTensors drawInputs(const Graph &g, uint64_t seed);

llvm::DenseMap<ValueId, Tensor> byValue(const Graph &g, const NamedTensors &inputs);

} // namespace isthmus
