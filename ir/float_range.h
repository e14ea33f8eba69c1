// The range of the floating-point types, and rounding to another type within its range.
#pragma once

#include "ir/tensor.h"

namespace isthmus {

struct FloatRange {
  double largest; // finite
  double least;   // above zero; may be subnormal
};
FloatRange rangeOf(DType t);

// The elements in another floating-point type, rounded to nearest. A finite number stays finite:
// beyond the range of `to` it becomes the largest number there, with its sign.
Tensor roundedTo(const Tensor &from, DType to);

} // namespace isthmus
