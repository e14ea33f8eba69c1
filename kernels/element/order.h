// The order of elements, on every device.
#pragma once

#include "kernels/element/portable.h"
#include <cstdint>

namespace isthmus::element {

// Whether `a` comes before `b` in descending (`largest`) or ascending order. NaN counts as the
// largest value.
template <typename C> ISTHMUS_DEVICE bool precedes(C a, C b, bool largest) {
  if (a != a || b != b)
    return largest ? a != a && b == b : a == a && b != b;
  return largest ? a > b : a < b;
}
// The same with positions: of equal elements the one at the lower position comes first.
template <typename C>
ISTHMUS_DEVICE bool precedes(C a, int64_t placeA, C b, int64_t placeB, bool largest) {
  return precedes(a, b, largest) || (!precedes(b, a, largest) && placeA < placeB);
}

// Whether `a` is a better maximum (`largest`) or minimum than `b`. NaN wins in both cases.
template <typename C> ISTHMUS_DEVICE bool outranks(C a, C b, bool largest) {
  return b == b && (a != a || (largest ? a > b : a < b));
}

} // namespace isthmus::element
