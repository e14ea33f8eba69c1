// Weights that are no initializers of the model's graph.
#pragma once

#include "ir/onnx/parameters/candidates.h"
#include "llvm/ADT/DenseSet.h"

namespace isthmus::onnx_import {

// Initializers of graphs within nodes that are weights, and Constant nodes that `options.learn`
// names or, where no initializer is a weight, that are weights. After the roles of the candidates
// are decided.
llvm::DenseSet<const void *> learnedElsewhere(const Candidates &candidates, Decisions &told);

} // namespace isthmus::onnx_import
