// The names of one list of nodes under translation: of the model's graph, of a function's body at
// one call, of a branch or of one turn of a loop.
//
// Bodies are translated in place, into the graph that the whole model becomes. A scope knows how
// its names are called there, and how a message tells where its nodes stand.
#pragma once

#include "ir/onnx/model.h"
#include "ir/onnx/value_table.h"

namespace isthmus::onnx_import {

class Scope {
public:
  // The model's graph.
  Scope(const Model &m, ValueTable &values);
  // A function's body, at a call by node `index` of `caller`. It sees its own names only.
  Scope(Scope &caller, const onnx::NodeProto &call, int index, const onnx::FunctionProto &f);
  // A graph held by node `index` of `around`, whose names it sees. `what`: "then_branch", "turn 3";
  // `suffix` tells it from the node's other graphs where values are named.
  Scope(Scope &around, const onnx::NodeProto &holder, int index, std::string what,
        const std::string &suffix);

  const Model &model;
  int64_t opset;     // of the default domain
  const int depth;   // how many scopes there are around it
  const int topNode; // index of the model's node that all this is part of; -1 in the model's graph

  // What a name stands for: null if that could not be made, and an invalid operand for a function's
  // input that the call leaves out.
  const Operand *find(llvm::StringRef name) const;
  // Why not: empty after an error that was told.
  llvm::StringRef whyMissing(llvm::StringRef name) const;
  void define(llvm::StringRef name, Operand o) { byName_[name] = std::move(o); }
  void defineMissing(llvm::StringRef name, std::string why) { missing_[name] = std::move(why); }

  // What a value called `name` here is called in the graph. Made-up names begin with the name of
  // what the node that holds this scope gives.
  std::string graphName(llvm::StringRef name) const;

  // `net.onnx: node "conv1" (Conv, #3) in function "Block" called by node "b" (Block, #0)`
  std::string where(const onnx::NodeProto &n, int index) const;

  // The attribute itself, or what it refers to in a function: the call's, else the function's
  // default, else null.
  const onnx::AttributeProto *resolve(const onnx::AttributeProto &a) const;

  // Whether `f` is being translated here or around here.
  bool isInside(const onnx::FunctionProto &f) const;

private:
  ValueTable &values_;
  Scope *const caller_ = nullptr; // whose node holds or calls this
  const onnx::NodeProto *const node_ = nullptr;
  const int index_ = -1;
  const onnx::FunctionProto *const function_ = nullptr;
  const std::string what_;
  std::string prefix_;
  llvm::StringMap<Operand> byName_;
  llvm::StringMap<std::string> missing_;
  llvm::StringMap<const onnx::AttributeProto *> attributes_; // of the function
};

} // namespace isthmus::onnx_import
