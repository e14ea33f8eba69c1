// The op table: all rows, by name. Built once, from the explicit list of families in ops/all.cc.
#pragma once

#include "ir/op_def.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus {

class OpRegistry {
public:
  static const OpRegistry &get();

  const OpDef *find(llvm::StringRef name) const;               // null if there is none
  const OpDef &at(llvm::StringRef name) const;                 // must exist
  llvm::ArrayRef<const OpDef *> rows() const { return rows_; } // in order of registration
  // The rows without Effect::Ordered, which kernels compute or which are views. The device itself
  // runs the others.
  llvm::ArrayRef<const OpDef *> computedRows() const { return computed_; }
  std::string nearNames(llvm::StringRef name) const; // "; did you mean ...?" or ""

  // For the families: checks the row and derives its operand list. `row` is moved in.
  void add(OpDef row);
  void add(std::vector<OpDef> rows);

private:
  std::vector<const OpDef *> rows_, computed_;
  llvm::StringMap<std::unique_ptr<OpDef>> byName_;
};

void registerAllOps(OpRegistry &r); // ops/all.cc

} // namespace isthmus
