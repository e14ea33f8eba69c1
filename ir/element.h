// Single elements of tensors as numbers, for all element types.
#pragma once

#include "ir/tensor.h"

namespace isthmus {

double elementAsDouble(const Tensor &t, int64_t i);
int64_t elementAsInt(const Tensor &t, int64_t i); // of integer and bool tensors

// Writes `v` as element i of `data`, a tensor of type `t` at any alignment. Floats round to
// nearest. Integers truncate, and `v` must be in the type's range. For bools any nonzero `v` is
// true.
void setElement(DType t, char *data, int64_t i, double v);

} // namespace isthmus
