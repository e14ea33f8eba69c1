// Maps an element's index to its plane (a channel of an image) and its position in the plane.
#pragma once

#include "kernels/cuda/grid.h"
#include "kernels/cuda/strided.h"

namespace isthmus::cuda {

class Planes {
public:
  explicit Planes(const int64_t (&sizes)[3])
      : size_{Divisor(sizes[0]), Divisor(sizes[1]), Divisor(sizes[2])} {}
  // Returns the plane. Each axis of a plane has fewer than 2^31 elements.
  ISTHMUS_GPU int64_t at(int64_t i, int32_t (&position)[3]) const {
    for (int a = 2; a >= 0; --a) {
      int64_t index;
      i = size_[a](i, &index);
      position[a] = int32_t(index);
    }
    return i;
  }

private:
  Divisor size_[3];
};

} // namespace isthmus::cuda
