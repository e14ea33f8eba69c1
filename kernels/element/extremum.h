// Maxima and minima, on every device. If any element is NaN, so is the extremum.
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

// The extremum of zero elements.
template <typename T> ISTHMUS_DEVICE Compute<T> leastExtreme(bool largest) {
  using Limits = std::numeric_limits<Compute<T>>;
  if constexpr (kIsFloat<T>)
    return largest ? -Limits::infinity() : Limits::infinity();
  else
    return largest ? Limits::lowest() : Limits::max();
}

// Whether `v` equals the extremum `y`; NaN matches NaN.
template <typename C> ISTHMUS_DEVICE bool isExtremum(C v, C y) {
  return v == y || (v != v && y != y);
}

} // namespace isthmus::element
