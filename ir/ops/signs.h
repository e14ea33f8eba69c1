// Sign rules of rows. They ignore overflow and underflow: an exponential that rounds to zero counts
// as positive.
#pragma once

#include "ir/op_def.h"
#include <algorithm>

namespace isthmus {

inline Sign signPositive(const Attrs &, llvm::ArrayRef<Sign>) { return Sign::Positive; }

// For rows that preserve the sign facts common to all operands: copies, products, roots.
inline Sign signOfOperands(const Attrs &, llvm::ArrayRef<Sign> operands) {
  Sign least = Sign::Positive;
  for (Sign s : operands)
    least = std::min(least, s);
  return operands.empty() ? Sign::Any : least;
}

// For rows whose result is zero exactly where the operand is, and may have any sign elsewhere.
inline Sign signIfNonZero(const Attrs &, llvm::ArrayRef<Sign> operands) {
  return std::min(operands[0], Sign::NonZero);
}

// For rows whose result is positive except where the operand is zero.
inline Sign signOfSize(const Attrs &, llvm::ArrayRef<Sign> operands) {
  return operands[0] == Sign::Any ? Sign::Any : Sign::Positive;
}

} // namespace isthmus
