// What each initializer of a model is: learned, carried from step to step, or constant.
#pragma once

#include "ir/onnx/model.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus::onnx_import {

enum class Role : uint8_t { Parameter, State, Constant };

struct InitializerRole {
  std::string name;
  const onnx::TensorProto *data; // of the initializer that it is, or is a copy of
  std::string copyOf; // the name of that, where an Identity makes this a tensor of its own
  Role role = Role::Constant;
  bool alsoState =
      false; // a parameter that some batch norm reads as its average: two inputs with one start
  std::string why; // a constant that looks like a parameter: why it is none
};

// In the order of the file, copies last. Roles follow these rules, the first that applies:
//  - where our own metadata tell it, they decide
//  - what no gradient reaches (integers; masks cast to bool, sizes, ratios) is constant
//  - where the exporter's graph signature names parameters and buffers, it decides; but see the
//  next rule
//  - what a batch normalization reads as its average is state
//  - scalars of rank 0, and single numbers that the exporter named itself, are constant: scales,
//  temperatures
//  - what holds infinities, or numbers that stand for them, is an additive mask: constant
//  - everything else is a parameter
std::vector<InitializerRole> classifyInitializers(const Model &m);

// What to tell of parameters that the exporter's signature names and the file does not hold; empty
// if there is none.
std::string tellLostParameters(const Model &m);

} // namespace isthmus::onnx_import
