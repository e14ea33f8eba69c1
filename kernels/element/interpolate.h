// Shapes of the interpolation ops: weighted sums of elements whose positions are given by operands.
// On every device.
#pragma once

#include "ir/type.h"
#include "kernels/element/portable.h"

namespace isthmus::element {

// Sizes of the common form: x [batch, channels, size, inner], g [batch, channels, points, inner],
// the weights w and their positions [shared ? 1 : batch, points, taps].
struct Form {
  int64_t batch, channels, size, points, taps, inner;
  bool shared;

  Form(const Type &x, const Type &g, const Type &at)
      : batch(x.dims[0]), channels(x.dims[1]), size(x.dims[2]), points(g.dims[2]), taps(at.dims[2]),
        inner(x.dims[3]), shared(at.dims[0] == 1) {}

  // The offset of image n's positions.
  ISTHMUS_DEVICE int64_t placesOf(int64_t n) const { return shared ? 0 : n * points * taps; }
};

} // namespace isthmus::element
