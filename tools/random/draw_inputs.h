// What a graph's inputs hold in tests that run it.
#pragma once

#include "ir/graph.h"
#include "tools/random/draw.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>

namespace isthmus {

// By name, so that a rewritten or reduced graph finds the same.
using NamedTensors = std::map<std::string, Tensor>;

// As the initializers say: data, fills, the intervals of uniform ones; else floats in [-1, 1) and
// integers in [0, 4). What an input gets depends on `seed` and its own name, type and initializer.
NamedTensors drawInputs(const Graph &g, uint64_t seed);

llvm::DenseMap<ValueId, Tensor> byValue(const Graph &g, const NamedTensors &inputs);

} // namespace isthmus
