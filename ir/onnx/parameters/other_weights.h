// Weights that are not initializers of the model's graph.
#pragma once

#include "ir/onnx/parameters/candidates.h"
#include "llvm/ADT/DenseSet.h"

namespace isthmus::onnx_import {

// Initializers of graphs within nodes that are weights; Constant nodes that `options.learn` names;
// and, if no initializer is a weight, Constant nodes that are weights. Call it after the roles of
// the candidates are decided.
llvm::DenseSet<const void *> otherWeights(const Candidates &candidates, Decisions &decisions);

} // namespace isthmus::onnx_import
