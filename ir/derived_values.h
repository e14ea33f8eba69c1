// Numbers values by how they are computed from the values of an original graph. Two values with the
// same number have the same bits, since they are the same op on the same values.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus {

class DerivedValues {
public:
  // Numbers below `numValues` are the values of the original themselves.
  explicit DerivedValues(size_t numValues) : next_(uint32_t(numValues)) {}

  // The number of result 0 of a pure node on numbered operands; the others follow it.
  uint32_t of(const Node &n, llvm::ArrayRef<uint32_t> operands);

  uint32_t end() const { return next_; } // above all numbers so far

  // Gives the results of this node the number `number` from now on.
  void alias(const Node &n, llvm::ArrayRef<uint32_t> operands, uint32_t number);

private:
  static std::string key(const Node &n, llvm::ArrayRef<uint32_t> operands);

  llvm::StringMap<uint32_t> known_;
  uint32_t next_;
};

} // namespace isthmus
