// Random tensors, and conversions and comparisons by way of doubles.
#pragma once

#include "ir/tensor.h"
#include <vector>

namespace isthmus {

// Floats are uniform in [low, high), integers in [0, bound), bools over both values; equal seeds
// give equal tensors.
struct DrawRange {
  double low = -1, high = 1;
  int64_t bound = 4;
};
Tensor draw(const Type &type, uint64_t seed, const DrawRange &range = {});

std::vector<double> toDoubles(const Tensor &t);
Tensor fromDoubles(const Type &type, llvm::ArrayRef<double> values); // rounded to the type

bool sameBits(const Tensor &a, const Tensor &b); // types included

} // namespace isthmus
