// The role of each tensor of a model: learned, carried from step to step, or constant; and which
// tensors are one parameter.
#pragma once

#include "ir/onnx/import.h"
#include "ir/onnx/model.h"
#include "ir/onnx/notes.h"
#include "ir/onnx/parameters/rearranged.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus::onnx_import {

enum class Role : uint8_t { Parameter, State, Constant };

struct InitializerRole {
  std::string name;
  std::string of; // the initializer that has its data: itself, or the original of a copy
  Role role = Role::Constant;
  bool alsoState = false; // a parameter that a batch norm also reads as its average: it becomes two
                          // inputs with the same initial value
  // The parameter that this tensor is a rearrangement of; empty for a separate tensor.
  std::string sameAs;
  Rearrangement how;
  bool isRepeated = false; // the file repeats one row along axis 0, and that row is the parameter
};

struct Roles {
  // In the order of the file, then copies, then tensors with `sameAs`.
  std::vector<InitializerRole> tensors;
  // Constant nodes, and initializers of graphs within nodes, that are learned.
  llvm::DenseSet<const void *> otherWeights;
  Notes notes; // about every decision
};

// `data` holds the initializers that could be read; biases that the exporter left out are added to
// it. If one initializer stands for several parameters, nodes of the model get new input names. The
// first rule that applies decides:
//  - Our own metadata, if present, decide; names in `options.learn` are parameters.
//  - A tensor that the outputs do not depend on by its elements (integers, masks cast to bool,
//    sizes, ratios) is constant, or state if a batch normalization reads it as its average. A
//    tensor that only operations without a gradient read (Round, ArgMax) may be a parameter; its
//    gradient is zero.
//  - If the exporter's graph signature names the tensor as a parameter or buffer, it decides. A
//    tensor that the exporter computed from parameters alone is learned in their place if it is the
//    parameter rearranged, or a weight. Other tensors that the signature does not name are
//    constant.
//  - Averages of batch norms that are written out, masks, and tables of positions are constant.
//  - Single numbers, and tensors with a name made up by the exporter, are parameters only if they
//    have a name of the model's own, or are read as a weight (OnnxOp::weights).
//  - Everything else is a parameter.
// If no initializer is read as a weight, Constant nodes read as weights become parameters.
//
// One tensor is one parameter, even under several names, and so is a bitwise transpose, reshape or
// cast of it. Tensors with all elements equal (zeros, ones) that the exporter merged are separate
// parameters, and so are those that the exporter's records distinguish. `options.ties` and
// `options.untie` overrule this. Errors: a name there that matches nothing, tensors that cannot be
// tied.
llvm::Expected<Roles> findRoles(Model &m, llvm::StringMap<Tensor> &data,
                                const OnnxOptions &options);

} // namespace isthmus::onnx_import
