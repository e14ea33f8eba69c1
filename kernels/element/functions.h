// Elementary functions. The float versions have no branches and call no functions, so that loops
// over them vectorise; their error is at most two or three units in the last place. The double
// versions are the C library's.
#pragma once

#include "kernels/element/portable.h"
#include <bit>
#include <cmath>
#include <cstdint>

namespace isthmus::element {

ISTHMUS_DEVICE inline double expOf(double x) { return std::exp(x); }

// e^x = 2^n e^r with |r| <= ln(2)/2. n ln(2) is subtracted in two parts; the first part has few
// bits, so its product with n is exact.
ISTHMUS_DEVICE inline float expOf(float x) {
  // Outside this range the result is infinite or zero.
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  constexpr float kToInteger =
      12582912.0f; // 1.5 * 2^23: adding it rounds to an integer in the low bits
  float shifted = x * 1.44269504f + kToInteger;
  float n = shifted - kToInteger;
  float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n as two factors, because n may be 128 or below the exponents of normal numbers.
  int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kToInteger);
  int32_t half = exponent >> 1;
  auto power = [](int32_t e) { return std::bit_cast<float>(uint32_t(e + 127) << 23); };
  return p * power(half) * power(exponent - half);
}

// e^x - 1. Near zero the difference cancels, so the exponential's series without its first term is
// used. Up to x^9 it is accurate to a float for |x| <= 1/2.
ISTHMUS_DEVICE inline double expm1Of(double x) { return std::expm1(x); }
ISTHMUS_DEVICE inline float expm1Of(float x) {
  float p = 1.0f / 362880;
  p = p * x + 1.0f / 40320;
  p = p * x + 1.0f / 5040;
  p = p * x + 1.0f / 720;
  p = p * x + 1.0f / 120;
  p = p * x + 1.0f / 24;
  p = p * x + 1.0f / 6;
  p = p * x + 0.5f;
  p = p * x + 1.0f;
  float size = x < 0 ? -x : x;
  return size > 0.5f ? expOf(x) - 1.0f : p * x; // NaN takes the series and stays NaN
}

// log(1 + t) for t in [0, 1].
ISTHMUS_DEVICE inline double log1pOf(double t) { return std::log1p(t); }
ISTHMUS_DEVICE inline float log1pOf(float t) { // 2 artanh(t / (2 + t))
  float s = t / (2.0f + t), q = s * s;
  float p = 1.0f / 15;
  p = p * q + 1.0f / 13;
  p = p * q + 1.0f / 11;
  p = p * q + 1.0f / 9;
  p = p * q + 1.0f / 7;
  p = p * q + 1.0f / 5;
  p = p * q + 1.0f / 3;
  p = p * q + 1.0f;
  return 2.0f * s * p;
}

ISTHMUS_DEVICE inline double tanhOf(double x) { return std::tanh(x); }
ISTHMUS_DEVICE inline float tanhOf(float x) {
  float size = x < 0 ? -x : x;
  // Near zero: Lambert's continued fraction (7 by 6). Elsewhere: the exponential, which would
  // cancel near zero.
  float q = x * x;
  float near = x * (135135.0f + q * (17325.0f + q * (378.0f + q))) /
               (135135.0f + q * (62370.0f + q * (3150.0f + q * 28.0f)));
  float far = 1.0f - 2.0f / (expOf(2.0f * size) + 1.0f);
  far = x < 0 ? -far : far;
  return size >= 1.0f ? far : near; // NaN takes `near` and stays NaN
}

ISTHMUS_DEVICE inline double logOf(double x) { return std::log(x); }
ISTHMUS_DEVICE inline float logOf(float x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)). Subnormal numbers are scaled up first.
  bool tiny = x < 0x1p-126f;
  float scaled = tiny ? x * 0x1p24f : x;
  int32_t bits = std::bit_cast<int32_t>(scaled);
  int32_t exponent = (bits - 0x3f3504f3) >> 23; // the bits of sqrt(1/2)
  float m = std::bit_cast<float>(bits - int32_t(uint32_t(exponent) << 23));
  float s = (m - 1.0f) / (m + 1.0f), q = s * s;
  float p = 1.0f / 11;
  p = p * q + 1.0f / 9;
  p = p * q + 1.0f / 7;
  p = p * q + 1.0f / 5;
  p = p * q + 1.0f / 3;
  float e = float(exponent - (tiny ? 24 : 0));
  float y = (2.0f * s + (2.0f * s * q * p + e * -2.12194440e-4f)) + e * 0.693359375f;
  y = x == 0 ? -INFINITY : y;
  y = x < 0 ? NAN : y;
  return x < INFINITY ? y : x; // infinity and NaN stay
}

ISTHMUS_DEVICE inline double erfOf(double x) { return std::erf(x); }
ISTHMUS_DEVICE inline float erfOf(float x) {
  // Chebyshev fits: for |x| < 1 of erf(x) / x in x^2 (error 1e-9), and for larger |x| of erfc(x)
  // e^(x^2) in 1 / (1 + x / 2) (error 2e-10).
  float size = x < 0 ? -x : x, q = x * x;
  float near = 7.875875063e-5f;
  near = near * q - 8.016864287e-4f;
  near = near * q + 5.189087423e-3f;
  near = near * q - 2.685421201e-2f;
  near = near * q + 1.128359472e-1f;
  near = near * q - 3.761262667e-1f;
  near = near * q + 1.128379166f;
  float t = 1.0f / (1.0f + 0.5f * size);
  float far = 1.198945043e-1f;
  far = far * t - 4.730830688e-1f;
  far = far * t + 5.660082225e-1f;
  far = far * t - 1.057865575e-1f;
  far = far * t + 3.488187223e-1f;
  far = far * t + 2.594089571e-1f;
  far = far * t + 2.849540208e-1f;
  far = far * t - 1.567637425e-4f;
  far = 1.0f - far * expOf(-q);
  far = x < 0 ? -far : far;
  return size >= 1.0f ? far : x * near; // NaN takes `near` and stays NaN
}

template <typename T> ISTHMUS_DEVICE inline T sigmoidOf(T x) { return T(1) / (T(1) + expOf(-x)); }
template <typename T> ISTHMUS_DEVICE inline T softplusOf(T x) {
  T size = x < 0 ? -x : x;
  return (x < 0 ? T(0) : x) + log1pOf(expOf(-size));
}

} // namespace isthmus::element
