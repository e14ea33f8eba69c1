// Logical and bitwise operations and shifts, on every device.
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

template <typename F> void dispatchBits(DType t, F f) { // bool and integers
  switch (t) {
  case DType::Bool:
    return f(TypeTag<bool>());
  case DType::U8:
    return f(TypeTag<uint8_t>());
  default:
    return dispatchInteger(t, f);
  }
}

struct And {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

// Whether a shift by `places` keeps some of the bits.
template <typename T> ISTHMUS_DEVICE bool staysInside(T places) {
  return places >= 0 && places < T(8 * sizeof(T));
}
struct ShiftLeft {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T places) const {
    return staysInside(places) ? static_cast<T>(uint64_t(a) << places) : T(0);
  }
};
struct ShiftRight {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T places) const {
    return staysInside(places) ? static_cast<T>(a >> places) : a < 0 ? T(-1) : T(0);
  }
};
struct Not {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};

} // namespace isthmus::element
