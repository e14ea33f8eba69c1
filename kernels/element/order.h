// The order of elements, on every device.
#pragma once

#include "kernels/element/portable.h"
#include <cstdint>

namespace isthmus::element {

// Whether `a` comes before `b`, the largest or the smallest coming first; NaN is the largest of
// all.
template <typename C> ISTHMUS_DEVICE bool precedes(C a, C b, bool largest) {
  if (a != a || b != b)
    return largest ? a != a && b == b : a == a && b != b;
  return largest ? a > b : a < b;
}
// With their places: of equal ones the first comes first.
template <typename C>
ISTHMUS_DEVICE bool precedes(C a, int64_t placeA, C b, int64_t placeB, bool largest) {
  return precedes(a, b, largest) || (!precedes(b, a, largest) && placeA < placeB);
}

// Whether `a` is nearer the largest, or the smallest, than `b`; NaN is the nearest to either.
template <typename C> ISTHMUS_DEVICE bool outranks(C a, C b, bool largest) {
  return b == b && (a != a || (largest ? a > b : a < b));
}

} // namespace isthmus::element
