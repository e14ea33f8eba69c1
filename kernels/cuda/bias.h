// Adds a bias per channel to a result in place.
#pragma once

#include "ir/type.h"
#include "kernels/cuda/queue.h"

namespace isthmus::cuda {

// Adds bias[i / inner % channels] to element i of y, which has n elements of the float type `type`.
// `inner` is 1 for channels-last layouts, and the number of elements of a plane for channels-first.
// Defined in conv.cu.
void addBias(const Queue &queue, DType type, const void *bias, int64_t channels, int64_t inner,
             int64_t n, void *y);

} // namespace isthmus::cuda
