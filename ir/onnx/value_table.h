// What each name of the model stands for while it is being imported.
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

// An operand or result while a node is being translated: a value of the graph or a constant.
// Neither: an earlier error left nothing.
struct Operand {
  Type type;
  ValueId value;
  std::shared_ptr<Constant> constant;

  bool isConstant() const { return constant != nullptr; }
  bool isValid() const { return value || constant; }
  const Tensor &data() const { return constant->data; }
};

class ValueTable {
public:
  explicit ValueTable(Graph &g) : g_(g) {}

  // A name of the model: nothing made up here will be called so.
  void reserve(llvm::StringRef name) { reserved_.insert(name); }
  std::string freshName(const std::string &base);

  void define(llvm::StringRef name, Operand o) { byName_[name] = std::move(o); }
  // A result that could not be made, because of an error that was told or because nobody offers it:
  // `why` then says so.
  void defineMissing(llvm::StringRef name, std::string why) { missing_[name] = std::move(why); }

  const Operand *find(llvm::StringRef name) const; // null if missing
  llvm::StringRef whyMissing(llvm::StringRef name) const;

  Operand constant(Tensor t, std::string name = "");
  Operand value(ValueId v) const { return {g_.type(v), v, nullptr}; }
  // The value of the graph, made now for a constant that has none yet.
  ValueId inGraph(const Operand &o);

private:
  Graph &g_;
  llvm::StringSet<> reserved_;
  llvm::StringMap<Operand> byName_;
  llvm::StringMap<std::string> missing_;
  llvm::StringMap<unsigned> nextSuffix_;
};

} // namespace isthmus::onnx_import
