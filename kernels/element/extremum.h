// Maxima and minima, on every device. NaN is one if there is any.
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

// What the extremum of no elements is.
template <typename T> ISTHMUS_DEVICE Compute<T> leastExtreme(bool largest) {
  using Limits = std::numeric_limits<Compute<T>>;
  if constexpr (kIsFloat<T>)
    return largest ? -Limits::infinity() : Limits::infinity();
  else
    return largest ? Limits::lowest() : Limits::max();
}

// Whether `v`, the extremum being `y`, is it; NaN is if there is one.
template <typename C> ISTHMUS_DEVICE bool isExtremum(C v, C y) {
  return v == y || (v != v && y != y);
}

} // namespace isthmus::element
