// Operands of nodes while a model is being imported, and names for what is made of them.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <memory>

namespace isthmus::onnx_import {

// A tensor known at import. It enters the graph, as a `const` input, only when a node that stays
// reads it.
struct Constant {
  Tensor data;
  std::string name; // of the model where it has one
  ValueId inGraph;
};

struct Operand;
using OperandList = llvm::SmallVector<Operand, 4>;

// What ONNX calls a sequence, or an optional value (none or one). The graph knows only tensors: how
// many there are is known at import.
struct List {
  bool isOptional = false;
  std::vector<Operand> items;
};

// An operand or result while a node is being translated: a value of the graph, a constant, or a
// list of these. None of them: it is left out, or an earlier error left nothing.
struct Operand {
  Type type; // of a value or constant
  ValueId value;
  std::shared_ptr<Constant> constant;
  std::shared_ptr<const List> list;

  bool isConstant() const { return constant != nullptr; }
  bool isList() const { return list != nullptr; }
  bool isValid() const { return value || constant || list; }
  const Tensor &data() const { return constant->data; }
};

class ValueTable {
public:
  explicit ValueTable(Graph &g) : g_(g) {}

  // A name of the model: nothing made up here will be called so.
  void reserve(llvm::StringRef name) { reserved_.insert(name); }
  std::string freshName(const std::string &base);

  Operand constant(Tensor t, std::string name = "");
  // An input of the graph that begins with these data.
  Operand input(InputKind kind, const std::string &name, const Tensor &data);
  Operand value(ValueId v) const { return {g_.type(v), v, nullptr, nullptr}; }
  // The value of the graph, made now for a constant that has none yet.
  ValueId inGraph(const Operand &o);

private:
  Graph &g_;
  llvm::StringSet<> reserved_;
  llvm::StringMap<unsigned> nextSuffix_;
};

} // namespace isthmus::onnx_import
