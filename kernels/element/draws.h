// Turns random words into the draws of random ops, on every device.
#pragma once

#include "kernels/element/dtype.h"
#include "kernels/element/philox.h"

namespace isthmus::element {

template <typename T> struct Dropout {
  uint32_t threshold;
  Compute<T> scale;
  // A dropped element is zero even if it was NaN.
  ISTHMUS_DEVICE T operator()(T x, uint32_t word) const {
    T kept = T(Compute<T>(x) * scale);
    return word >= threshold ? kept : T();
  }
};
template <typename T> Dropout<T> dropout(double ratio) {
  return {dropThreshold(ratio), Compute<T>(1 / (1 - ratio))};
}

// The largest value of type T that is below `high`. `high` <= `low` means an empty range: then the
// value is `high`.
template <typename T> T justBelow(double high, double low) {
  using C = Compute<T>;
  C c = C(high);
  if constexpr (std::is_same_v<T, C>) {
    c = double(c) < high || high <= low ? c
                                        : std::nextafter(c, -std::numeric_limits<C>::infinity());
    return c;
  } else {
    T t = T(c);
    for (C lower = c; double(C(t)) >= high && high > low;
         t = T(lower)) // a few steps of 1 / 2048 of its size
      lower -= std::max(std::fabs(lower) / 2048, C(1e-7));
    return t;
  }
}

template <typename T> struct Uniform {
  Compute<T> low, width, most;
  ISTHMUS_DEVICE T operator()(uint32_t word) const {
    Compute<T> u;
    if constexpr (std::is_same_v<T, double>)
      u = uniformDouble(word);
    else
      u = uniformFloat(word);
    u = low + width * u;
    return static_cast<T>(most < u ? most : u);
  }
};
template <typename T> Uniform<T> uniform(double low, double high) {
  using C = Compute<T>;
  return {C(low), C(high - low), C(justBelow<T>(high, low))};
}

struct Normal {
  double mean, std;
  // Two draws from two words.
  ISTHMUS_DEVICE void operator()(uint32_t first, uint32_t second, double *draw) const {
    double cosine, sine;
    philoxCosSin(uniformDouble(second), &cosine, &sine);
    double radius = std::sqrt(normalRadiusSquared(first));
    draw[0] = mean + std * (radius * cosine);
    draw[1] = mean + std * (radius * sine);
  }
};

} // namespace isthmus::element
