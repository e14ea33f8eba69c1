// What rows say of the signs of their results. Overflow and underflow are left out: an exponential
// that rounds to zero counts as positive.
#pragma once

#include "ir/op_def.h"
#include <algorithm>

namespace isthmus {

inline Sign signPositive(const Attrs &, llvm::ArrayRef<Sign>) { return Sign::Positive; }

// Of rows whose result is as far from zero as all its operands: copies, products, roots.
inline Sign signOfOperands(const Attrs &, llvm::ArrayRef<Sign> operands) {
  Sign least = Sign::Positive;
  for (Sign s : operands)
    least = std::min(least, s);
  return operands.empty() ? Sign::Any : least;
}

// Of rows whose result is zero where the operand is, and nowhere else, and of any sign.
inline Sign signIfNonZero(const Attrs &, llvm::ArrayRef<Sign> operands) {
  return std::min(operands[0], Sign::NonZero);
}

// Of rows that are positive but where the operand is zero.
inline Sign signOfSize(const Attrs &, llvm::ArrayRef<Sign> operands) {
  return operands[0] == Sign::Any ? Sign::Any : Sign::Positive;
}

} // namespace isthmus
