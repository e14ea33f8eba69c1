// Unary math functions, rounding, remainders and float classification, on every device.
#pragma once

#include "kernels/element/functions.h"
#include <type_traits>

namespace isthmus::element {

struct Log1p {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::log1p(x); }
};
struct Expm1 {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return expm1Of(x); }
};
struct Tan {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::tan(x); }
};
struct Asin {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::asin(x); }
};
struct Acos {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::acos(x); }
};
struct Atan {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::atan(x); }
};
struct Sinh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::sinh(x); }
};
struct Cosh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::cosh(x); }
};
struct Asinh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::asinh(x); }
};
struct Acosh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::acosh(x); }
};
struct Atanh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::atanh(x); }
};
struct Logit {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return logOf(x / (T(1) - x)); }
};
struct SoftplusInverse {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return x + logOf(-expm1Of(-x)); }
};
struct Floor {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::floor(x); }
};
struct Ceil {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::ceil(x); }
};
struct Round { // halves to even, the default rounding mode
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::rint(x); }
};

// --- Remainders

struct Fmod { // the result has the dividend's sign
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    if constexpr (!std::is_integral_v<T>) {
      return std::fmod(a, b);
    } else {
      if constexpr (std::is_signed_v<T>)
        if (b == -1) // the quotient of the smallest integer overflows
          return 0;
      return b == 0 ? T(0) : static_cast<T>(a % b);
    }
  }
};
struct Mod { // the result has the divisor's sign
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    T r = Fmod()(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  }
};

// --- Classification

struct IsNaN {
  template <typename T> ISTHMUS_DEVICE bool operator()(T x) const { return x != x; }
};
struct IsPositive { // or NaN
  template <typename T> ISTHMUS_DEVICE bool operator()(T x) const { return !(x <= 0); }
};
struct IsInf {
  bool positive, negative;
  template <typename T> ISTHMUS_DEVICE bool operator()(T x) const {
    return (positive && x == INFINITY) || (negative && x == -INFINITY);
  }
};

} // namespace isthmus::element
