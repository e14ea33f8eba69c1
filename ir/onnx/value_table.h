// The operands of nodes during an import, and names for the values made from them.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <memory>

namespace isthmus::onnx_import {

// A tensor known at import. It enters the graph, as a `const` input, only when a node of the graph
// reads it.
struct Constant {
  Tensor data;
  std::string name; // the model's name for it, if any
  ValueId inGraph;
};

struct Operand;
using OperandList = llvm::SmallVector<Operand, 4>;

// An ONNX sequence or optional value (zero or one item). The graph has only tensors, so the number
// of items is known at import.
struct List {
  bool isOptional = false;
  std::vector<Operand> items;
};

// An operand or result during the translation of a node: a value of the graph, a constant, or a
// list of these. If none is set, the operand was left out, or an earlier error prevented it.
struct Operand {
  Type type; // for a value or constant
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

  // Reserves a name of the model: freshName never returns it.
  void reserve(llvm::StringRef name) { reserved_.insert(name); }
  std::string freshName(const std::string &base);

  Operand constant(Tensor t, std::string name = "");
  // A new input of the graph, initialized with `data`.
  Operand input(InputKind kind, const std::string &name, const Tensor &data);
  Operand value(ValueId v) const { return {g_.type(v), v, nullptr, nullptr}; }
  // The value in the graph. A constant without one gets a new `const` input.
  ValueId inGraph(const Operand &o);

private:
  Graph &g_;
  llvm::StringSet<> reserved_;
  llvm::StringMap<unsigned> nextSuffix_;
};

} // namespace isthmus::onnx_import
