// The names of one list of nodes under translation: the model's graph, a function's body at one
// call, a branch, or one iteration of a loop.
//
// Bodies are translated in place, into the one graph of the whole model. A scope maps its names to
// names of that graph, and describes the position of its nodes for messages.
#pragma once

#include "ir/onnx/model.h"
#include "ir/onnx/value_table.h"

namespace isthmus::onnx_import {

class Scope {
public:
  // The model's graph. `graphNames`: of values that are not called there as they are in the file.
  Scope(const Model &m, ValueTable &values, llvm::StringMap<std::string> graphNames = {});
  // A function's body, called by node `index` of `caller`. It sees only its own names.
  Scope(Scope &caller, const onnx::NodeProto &call, int index, const onnx::FunctionProto &f);
  // A graph held by node `index` of `around`, whose names it sees. `what`: "then_branch", "turn 3".
  // `suffix` distinguishes it from the node's other graphs in value names.
  Scope(Scope &around, const onnx::NodeProto &holder, int index, std::string what,
        const std::string &suffix);

  const Model &model;
  int64_t opset;     // of the default domain
  const int depth;   // the number of enclosing scopes
  const int topNode; // index of the model's node that contains this scope; -1 in the model's graph

  // The operand with this name. Null if it could not be made; an invalid operand for a function's
  // input that the call leaves out.
  const Operand *find(llvm::StringRef name) const;
  // The reason why a name has no operand; empty if the error was already reported.
  llvm::StringRef whyMissing(llvm::StringRef name) const;
  void define(llvm::StringRef name, Operand o) { byName_[name] = std::move(o); }
  void defineMissing(llvm::StringRef name, std::string why) { missing_[name] = std::move(why); }

  // The name in the graph for a value called `name` in this scope. Made-up names are prefixed with
  // the first result of the node that holds this scope.
  std::string graphName(llvm::StringRef name) const;

  // `net.onnx: node "conv1" (Conv, #3) in function "Block" called by node "b" (Block, #0)`
  std::string where(const onnx::NodeProto &n, int index) const;

  // The attribute itself or, if it refers to a function's attribute, the value from the call, else
  // the function's default, else null.
  const onnx::AttributeProto *resolve(const onnx::AttributeProto &a) const;

  // Whether this scope or an enclosing one is a call of `f`.
  bool isInside(const onnx::FunctionProto &f) const;

private:
  ValueTable &values_;
  Scope *const caller_ = nullptr; // the scope of the node that holds or calls this one
  const onnx::NodeProto *const node_ = nullptr;
  const int index_ = -1;
  const onnx::FunctionProto *const function_ = nullptr;
  const std::string what_;
  std::string prefix_;
  const llvm::StringMap<std::string> graphNames_;
  llvm::StringMap<Operand> byName_;
  llvm::StringMap<std::string> missing_;
  llvm::StringMap<const onnx::AttributeProto *> attributes_; // of the called function
};

} // namespace isthmus::onnx_import
