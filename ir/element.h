// Single elements of tensors as numbers, whatever their type.
#pragma once

#include "ir/tensor.h"

namespace isthmus {

double elementAsDouble(const Tensor &t, int64_t i);
int64_t elementAsInt(const Tensor &t, int64_t i); // of integer and bool tensors

} // namespace isthmus
