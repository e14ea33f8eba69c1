// Arithmetic and comparison of single elements, on every device. Float operands are already in
// their compute type.
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

// --- Arithmetic. Integers wrap round; a quotient by zero is zero.

template <typename T> ISTHMUS_DEVICE T wrapped(std::make_unsigned_t<T> v) {
  return static_cast<T>(v);
}

struct Add {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return wrapped<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return wrapped<T>(std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return wrapped<T>(std::make_unsigned_t<T>(a) * std::make_unsigned_t<T>(b));
    else
      return a * b;
  }
};
struct Div {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0)
        return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) // the quotient of the smallest integer overflows
          return Sub()(T(0), a);
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Pow {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (std::is_signed_v<T>)
        if (b < 0)
          return a == 1 ? 1 : a == T(-1) ? (b % 2 ? -1 : 1) : 0;
      T power = 1;
      for (; b > 0; b /= 2, a = Mul()(a, a))
        if (b % 2)
          power = Mul()(power, a);
      return power;
    } else {
      return std::pow(a, b);
    }
  }
};
struct Maximum {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    return a >= b || a != a ? a : b;
  }
};
struct Minimum {
  template <typename T> ISTHMUS_DEVICE T operator()(T a, T b) const {
    return a <= b || a != a ? a : b;
  }
};

// scale * x + shift. Integers use integer arithmetic where scale and shift are integers.
template <typename C> struct Affine {
  C scale, shift;
  ISTHMUS_DEVICE C operator()(C x) const {
    if constexpr (std::is_integral_v<C>)
      return Add()(Mul()(scale, x), shift);
    else
      return scale * x + shift;
  }
};
template <typename T> struct AffineOfInteger {
  double scale, shift;
  ISTHMUS_DEVICE T operator()(T x) const { return converted<T>(scale * double(x) + shift); }
};
template <typename T> bool isAffineInIntegers(double scale, double shift) {
  return double(converted<T>(scale)) == scale && double(converted<T>(shift)) == shift;
}

template <typename C> struct Clamp { // NaN stays
  C low, high;
  ISTHMUS_DEVICE C operator()(C x) const { return x < low ? low : x > high ? high : x; }
};
// For integers, bounds between integers are rounded inwards.
template <typename T> Clamp<Compute<T>> clampTo(double min, double max) {
  using C = Compute<T>;
  if constexpr (kIsFloat<T>)
    return {C(min), C(max)};
  else
    return {converted<C>(std::ceil(min)), converted<C>(std::floor(max))};
}

// --- Comparison

struct Equal {
  template <typename T> ISTHMUS_DEVICE bool operator()(T a, T b) const { return a == b; }
};
struct Less {
  template <typename T> ISTHMUS_DEVICE bool operator()(T a, T b) const { return a < b; }
};
struct LessEqual {
  template <typename T> ISTHMUS_DEVICE bool operator()(T a, T b) const { return a <= b; }
};
struct Greater {
  template <typename T> ISTHMUS_DEVICE bool operator()(T a, T b) const { return a > b; }
};
struct GreaterEqual {
  template <typename T> ISTHMUS_DEVICE bool operator()(T a, T b) const { return a >= b; }
};
// --- Casts

template <typename From, typename To> struct Cast {
  ISTHMUS_DEVICE To operator()(Compute<From> x) const { return converted<To>(x); }
};

} // namespace isthmus::element
