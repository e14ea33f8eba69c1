// Tensors drawn at random, converted and compared by way of doubles.
#pragma once

#include "ir/tensor.h"
#include <vector>

namespace isthmus {

// Floats even in [low, high), integers even in [0, bound), bools either way; the same for the same
// seed.
struct DrawRange {
  double low = -1, high = 1;
  int64_t bound = 4;
};
Tensor draw(const Type &type, uint64_t seed, const DrawRange &range = {});

std::vector<double> toDoubles(const Tensor &t);
Tensor fromDoubles(const Type &type, llvm::ArrayRef<double> values); // rounded to the type

bool sameBits(const Tensor &a, const Tensor &b); // types included

} // namespace isthmus
