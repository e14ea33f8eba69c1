// How the nodes of a model read its names, as far as it distinguishes weights from constants.
#pragma once

#include "ir/onnx/model.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {

// Sets of names. Names of graphs within nodes and of the model's graph share one set.
struct Readers {
  llvm::StringSet<> learned; // a gradient can flow from an output to it
  // The elements of the outputs depend on it, but on every way is an operation that has no
  // gradient, such as Round or ArgMax; the nearest one to the name is reported. Names of `learned`
  // may also be here.
  struct Stop {
    std::string why;      // "'Round' has none"
    bool isNumber = true; // the outputs are computed from the operation's result, and not only
                          // selected by it
  };
  llvm::StringMap<Stop> stopped;
  // Sums x + (q - x) in which q is x rounded or the like, from the last one on.
  std::vector<std::string> lostDetach;
  llvm::StringSet<> averaged; // a batch normalization reads it as its mean or variance
  // Read by weight operands (OnnxOp::weights), directly or through a cast or a change of shape.
  llvm::StringSet<> weights;
  // The weights of operators that depend on the model's inputs, not only on constants.
  llvm::StringSet<> weightsOfFed;
  // Affects the outputs only through sines and cosines, and does not meet values computed from a
  // float input before them: the frequencies of rotary or sinusoidal positions.
  llvm::StringSet<> frequencies;

  // What keeps gradients from a name that the outputs depend on; null if one can flow to it.
  const Stop *stopOf(llvm::StringRef name) const {
    auto found = stopped.find(name);
    return found == stopped.end() || learned.count(name) ? nullptr : &found->second;
  }
  bool isUsed(llvm::StringRef name) const { return learned.count(name) || stopped.count(name); }
};

Readers readersOf(const Model &m);

} // namespace isthmus::onnx_import
