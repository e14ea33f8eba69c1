// What each tensor of a model is: learned, carried from step to step, or constant; and which of
// them are one parameter.
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
  std::string of; // the initializer that has its data: itself, or the one that it is a copy of
  Role role = Role::Constant;
  bool alsoState = false; // a parameter that some batch norm reads as its average: two inputs with
                          // one start
  // The parameter that it is, seen in another way; empty for a tensor of its own.
  std::string sameAs;
  Rearrangement how;
  bool isRepeated = false; // a parameter of one row that the file has several times, along axis 0
};

struct Roles {
  // In the order of the file, then copies, then those that are `sameAs` another.
  std::vector<InitializerRole> tensors;
  // Constant nodes and initializers of graphs within nodes that are learned.
  llvm::DenseSet<const void *> learnedElsewhere;
  Notes notes; // of every decision
};

// `data` holds the initializers that could be read. Nodes of the model may be given other names to
// read where one initializer stands for several parameters. The rules, the first that applies:
//  - where our own metadata tell it, they decide; what `options.learn` names is a parameter
//  - what no gradient reaches (integers, masks cast to bool, sizes, ratios) is constant, or state
//    if a batch normalization reads it as its average
//  - where the exporter's graph signature names parameters and buffers, it decides. What the
//    exporter computed from parameters alone is learned in their place where it is the parameter
//    rearranged, or a weight; the rest that it does not name is constant.
//  - averages of batch norms that are written out, masks, and tables of positions are constant
//  - single numbers, and tensors whose name the exporter made up, are parameters only if they have
//    a name of the model's own, or are read as a weight (OnnxOp::weights)
//  - everything else is a parameter
// Where no initializer is read as a weight, Constant nodes that are take their place.
//
// One tensor is one parameter, under whatever names, and so is what is bit for bit its transpose,
// reshape or cast. Tensors that are equal throughout (zeros, ones) and were merged by the exporter
// are parameters of their own, and so are those that the exporter's records tell apart.
// `options.ties` and `options.untie` overrule. Errors: a name there that fits nothing, tensors that
// cannot be tied.
llvm::Expected<Roles> findRoles(Model &m, const llvm::StringMap<Tensor> &data,
                                const OnnxOptions &options);

} // namespace isthmus::onnx_import
