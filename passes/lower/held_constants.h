// The constants of a graph in another floating-point type, and which of them that type does not
// hold.
#pragma once

#include "ir/diagnostics.h"
#include "ir/tensor.h"

namespace isthmus {

// Rounds to nearest, with two exceptions. A finite number stays finite: beyond the range of the
// type it becomes the largest number there (masks of -1e10). And a constant that is not zero does
// not become zero: if all its elements would, they become the least number (epsilons of 1e-12).
class HeldConstants {
public:
  explicit HeldConstants(DType to) : to_(to) {}

  Tensor tensor(llvm::StringRef name, const Tensor &from);
  // A number that the node of value `name` has as its attribute `attr`, or a fill as its argument.
  double number(llvm::StringRef name, llvm::StringRef attr, double v);

  // One note for each of the exceptions that occurred.
  void tell(const NoteSink &note) const;

private:
  struct Change {
    std::string name;
    int64_t elements; // that became `is`; 1 for a number
    double was, is;   // the element of the largest size
  };
  void add(std::vector<Change> &to, llvm::StringRef name, int64_t elements, double was, double is);
  static std::string listed(const std::vector<Change> &all);

  const DType to_;
  std::vector<Change> large_, small_;
};

} // namespace isthmus
