// Single elements of tensors as numbers, whatever their type.
#pragma once

#include "ir/tensor.h"

namespace isthmus {

double elementAsDouble(const Tensor &t, int64_t i);
int64_t elementAsInt(const Tensor &t, int64_t i); // of integer and bool tensors

// Writes element i of the data of a tensor of type `t`, at any address. Floats round to nearest;
// integers, of whose type `v` must be, lose what is behind the point; anything but zero is true.
void setElement(DType t, char *data, int64_t i, double v);

} // namespace isthmus
