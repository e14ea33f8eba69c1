// A bias for each channel, added to a result that is there.
#pragma once

#include "ir/type.h"
#include "kernels/cuda/queue.h"

namespace isthmus::cuda {

// Adds bias[i / inner % channels] to element i of y, which has n of the float type `type`: `inner`
// is 1 where channels are last, and the elements of a plane where they come before it. In conv.cu.
void addBias(const Queue &queue, DType type, const void *bias, int64_t channels, int64_t inner,
             int64_t n, void *y);

} // namespace isthmus::cuda
