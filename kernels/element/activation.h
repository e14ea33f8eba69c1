// Activations and other functions of one number, and their gradients, on every device.
#pragma once

#include "kernels/element/functions.h"
#include <type_traits>

namespace isthmus::element {

struct Neg {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - std::make_unsigned_t<T>(x));
    else
      return -x;
  }
};
struct Abs {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg()(x) : x;
    else
      return std::fabs(x);
  }
};
struct SignOf { // zero for NaN, so that the gradient of abs is zero there
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    return x > 0 ? T(1) : x < 0 ? T(-1) : T(0);
  }
};
struct Exp {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return expOf(x); }
};
struct Log {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return logOf(x); }
};
struct Sqrt {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::sqrt(x); }
};
struct Rsqrt {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return T(1) / std::sqrt(x); }
};
struct Reciprocal {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return T(1) / x; }
};
struct Square {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(x) * uint64_t(x)); // the low bits hold for signed types too
    else
      return x * x;
  }
};
struct Sin {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::sin(x); }
};
struct Cos {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return std::cos(x); }
};
struct Erf {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return erfOf(x); }
};
struct Softplus {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return softplusOf(x); }
};
struct Relu { // NaN stays NaN
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return x <= 0 ? T(0) : x; }
};
struct Tanh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return tanhOf(x); }
};
struct Sigmoid {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return sigmoidOf(x); }
};
struct Silu {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return x * sigmoidOf(x); }
};
struct GeluErf {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    return T(0.5) * x * (T(1) + erfOf(x * T(M_SQRT1_2)));
  }
};
// x (1 + tanh(u)) / 2 with u = k (x + a x^3)
constexpr double kGeluK = 0.79788456080286535588, kGeluA = 0.044715; // k = sqrt(2 / pi)
struct GeluTanh {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    return T(0.5) * x * (T(1) + tanhOf(T(kGeluK) * (x * (T(1) + T(kGeluA) * x * x))));
  }
};

struct Softsign {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return x / (T(1) + std::fabs(x)); }
};
struct Mish {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return x * tanhOf(softplusOf(x)); }
};
template <typename T> ISTHMUS_DEVICE T hardSigmoidOf(T x, T alpha, T beta) {
  T y = alpha * x + beta;
  return y < 0 ? T(0) : y > 1 ? T(1) : y;
}
struct HardSwish {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const {
    return x * hardSigmoidOf(x, T(1.0 / 6), T(0.5));
  }
};

// --- Gradients, from g and either the operand x or the result y (v: either of them). Those of
// functions in pieces take PyTorch's piece at NaN.

struct ReluGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T v) const { return v <= 0 ? T(0) : g; }
};
struct TanhGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T y) const { return g * (T(1) - y * y); }
};
struct SigmoidGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T y) const { return g * (y * (T(1) - y)); }
};
struct SiluGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T x) const {
    T s = sigmoidOf(x);
    return g * (s + x * (s * (T(1) - s)));
  }
};
struct GeluErfGrad { // Phi(x) + x phi(x)
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T x) const {
    T cdf = T(0.5) * (T(1) + erfOf(x * T(M_SQRT1_2)));
    T pdf = T(0.39894228040143267794) * expOf(T(-0.5) * x * x); // 1 / sqrt(2 pi)
    return g * (cdf + x * pdf);
  }
};
struct GeluTanhGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T x) const {
    T q = x * x, t = tanhOf(T(kGeluK) * (x * (T(1) + T(kGeluA) * q)));
    T slope = (T(1) - t * t) * (T(kGeluK) * (T(1) + T(3 * kGeluA) * q));
    return g * (T(0.5) * (T(1) + t + x * slope));
  }
};

struct SoftsignGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T y) const {
    T left = T(1) - std::fabs(y);
    return g * (left * left);
  }
};
struct MishGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T x) const {
    T t = tanhOf(softplusOf(x));
    return g * (t + x * ((T(1) - t * t) * sigmoidOf(x)));
  }
};
struct HardSwishGrad {
  template <typename T> ISTHMUS_DEVICE T operator()(T g, T x) const {
    // Outside of the bend nothing is multiplied by x, which may be infinite.
    T bend = hardSigmoidOf(x, T(1.0 / 6), T(0.5)) + x * T(1.0 / 6);
    return g * (x <= -3 ? T(0) : x < 3 ? bend : T(1));
  }
};

// --- Functions with numeric attributes

template <typename C> struct ClampGrad { // an infinite bound does not bound an infinite operand
  C low, high;
  ISTHMUS_DEVICE C operator()(C g, C v) const {
    return (v > low || low == -INFINITY) && (v < high || high == INFINITY) ? g : C(0);
  }
};
template <typename C> struct LeakyRelu {
  C alpha;
  ISTHMUS_DEVICE C operator()(C x) const { return x > 0 ? x : alpha * x; }
};
template <typename C> struct LeakyReluGrad {
  C alpha;
  ISTHMUS_DEVICE C operator()(C g, C v) const { return v > 0 ? g : alpha * g; }
};
template <typename C> struct Elu {
  C alpha, scale, width;
  ISTHMUS_DEVICE C operator()(C x) const {
    // For large x the exponential may be infinite.
    C low = x > 0 ? C(0) : x;
    return x > 0 ? scale * x : scale * alpha * expm1Of(low / width);
  }
};
template <typename C> struct EluInverse {
  C alpha, scale, width;
  ISTHMUS_DEVICE C operator()(C y) const {
    C low = y > 0 ? C(0) : y;
    return y > 0 ? y / scale : width * std::log1p(low / (scale * alpha));
  }
};
template <typename C> struct EluGrad { // from the result
  C alpha, scale, width;
  ISTHMUS_DEVICE C operator()(C g, C y) const {
    return g * (y <= 0 ? (y + scale * alpha) / width : scale);
  }
};
template <typename C> struct Swish {
  C alpha;
  ISTHMUS_DEVICE C operator()(C x) const { return x * sigmoidOf(alpha * x); }
};
template <typename C> struct SwishGrad {
  C alpha;
  ISTHMUS_DEVICE C operator()(C g, C x) const {
    C s = sigmoidOf(alpha * x);
    return g * (s + alpha * x * (s * (C(1) - s)));
  }
};
template <typename C> struct HardSigmoid {
  C alpha, beta;
  ISTHMUS_DEVICE C operator()(C x) const { return hardSigmoidOf(x, alpha, beta); }
};
template <typename C> struct ThresholdedRelu {
  C alpha;
  ISTHMUS_DEVICE C operator()(C x) const { return x <= alpha ? C(0) : x; }
};
template <typename C> struct Shrink {
  C edge, bias;
  ISTHMUS_DEVICE C operator()(C x) const {
    return x < -edge ? x + bias : x > edge ? x - bias : x != x ? x : C(0);
  }
};
struct Prelu {
  template <typename T> ISTHMUS_DEVICE T operator()(T x, T slope) const {
    return x > 0 ? x : slope * x;
  }
};

} // namespace isthmus::element
