// How the nodes of a model read its names, as far as it distinguishes weights from constants.
#pragma once

#include "ir/onnx/model.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {

// Sets of names. Names of graphs within nodes and of the model's graph share one set.
struct Readers {
  llvm::StringSet<> learned;  // a gradient can flow from an output to it
  llvm::StringSet<> averaged; // a batch normalization reads it as its mean or variance
  // Read by weight operands (OnnxOp::weights), directly or through a cast or a change of shape.
  llvm::StringSet<> weights;
  // The weights of operators that depend on the model's inputs, not only on constants.
  llvm::StringSet<> weightsOfFed;
  // Affects the outputs only through sines and cosines, and does not meet values computed from a
  // float input before them: the frequencies of rotary or sinusoidal positions.
  llvm::StringSet<> frequencies;
};

Readers readersOf(const Model &m);

} // namespace isthmus::onnx_import
