// How a model reads its names, as far as that tells a weight from a constant.
#pragma once

#include "ir/onnx/model.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {

// By name. Names of graphs within nodes and of the model's graph share one set.
struct Readers {
  llvm::StringSet<> learned;  // a gradient can flow from it to an output
  llvm::StringSet<> averaged; // a batch normalization takes it as its mean or variance
  // Operands that hold weights (OnnxOp::weights), directly or through a cast or another shape.
  llvm::StringSet<> weights;
  // Those of operators that work on what the model is fed, and not on constants alone.
  llvm::StringSet<> weightsOfFed;
  // It reaches the rest of the model through sines and cosines alone, and nothing that a float
  // input decides comes in before: the frequencies of rotary or sinusoidal positions.
  llvm::StringSet<> frequencies;
};

Readers readersOf(const Model &m);

} // namespace isthmus::onnx_import
