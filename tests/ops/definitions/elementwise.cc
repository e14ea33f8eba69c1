// Functions of the elements at one position.

#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {
namespace {

// y = f(operands), with numpy's broadcasting; f may take the call first.
template <size_t operands, auto f> void each(const OpCall &call, Operands x, Results y) {
  auto of = [&](auto... v) -> Number {
    if constexpr (std::is_invocable_v<decltype(f), const OpCall &, decltype(v)...>)
      return f(call, v...);
    else
      return f(v...);
  };
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    if constexpr (operands == 1)
      y[0][at] = of(x[0].broadcast(at));
    else if constexpr (operands == 2)
      y[0][at] = of(x[0].broadcast(at), x[1].broadcast(at));
    else
      y[0][at] = of(x[0].broadcast(at), x[1].broadcast(at), x[2].broadcast(at));
  });
}

Number attr(const OpCall &call, const char *name) { return call.attrs->getFloat(name); }
DType typeIn(const OpCall &call) { return call.operands[0].dtype; }
bool isInteger(const OpCall &call) { return !isFloat(typeIn(call)); }

// --- Arithmetic. Integers wrap round, and a quotient by zero is zero.

Number quotient(const OpCall &call, Number a, Number b) {
  if (!isInteger(call))
    return a / b;
  return b == 0 ? 0 : b == -1 ? times(typeIn(call), a, b) : Number(int64_t(a) / int64_t(b));
}
Number power(const OpCall &call, Number a, Number b) {
  if (!isInteger(call))
    return std::pow(a, b);
  if (b < 0) // 1 / a^-b, rounded towards zero; 0 for a = 0
    return a == 1 ? 1 : a == -1 ? (std::fmod(b, 2.0L) == 0 ? 1 : -1) : 0;
  Number out = 1;
  for (uint64_t bit = uint64_t(1) << 63; bit != 0; bit /= 2) { // squaring and multiplying
    out = times(typeIn(call), out, out);
    if (uint64_t(int64_t(b)) & bit)
      out = times(typeIn(call), out, a);
  }
  return out;
}
Number remainder(const OpCall &call, Number a, Number b) {
  if (isInteger(call) && b == 0)
    return 0;
  const Number r = std::fmod(a, b); // it has the sign of a
  return call.attrs->getBool("fmod") || r == 0 || (r < 0) == (b < 0) ? r : r + b;
}
// Integers become other integers by their low bits.
Number cast(const OpCall &call, Number x) {
  const DType to = typeOf(call);
  return isFloat(to)         ? x
         : to == DType::Bool ? Number(x != 0)
         : isInteger(call)   ? wrapped(to, uint64_t(int64_t(x)))
                             : truncated(to, x);
}
// Integers with a factor or summand that is none are computed in f64, and rounded towards zero.
Number affine(const OpCall &call, Number x) {
  const double scale = call.attrs->getFloat("scale"), shift = call.attrs->getFloat("shift");
  const DType t = typeIn(call);
  return isFloat(t) ? scale * x + shift
         : scale == std::trunc(scale) && shift == std::trunc(shift)
             ? plus(t, times(t, scale, x), shift)
             : truncated(t, scale * double(x) + shift);
}

// --- Bits

template <auto f> Number bits(const OpCall &call, Number a, Number b) {
  return wrapped(typeIn(call), uint64_t(f(int64_t(a), int64_t(b))));
}
Number complement(const OpCall &call, Number a) {
  return typeIn(call) == DType::Bool ? Number(a == 0)
                                     : wrapped(typeIn(call), ~uint64_t(int64_t(a)));
}
template <bool left> Number shift(const OpCall &call, Number a, Number b) {
  const bool keeps = b >= 0 && b < 8 * Number(dtypeBytes(typeIn(call)));
  if (left)
    return keeps ? wrapped(typeIn(call), uint64_t(int64_t(a)) << int64_t(b)) : 0;
  return keeps ? Number(int64_t(a) >> int64_t(b)) : a < 0 ? -1 : 0;
}

// --- Activations

Number sigmoid(Number x) { return 1 / (1 + std::exp(-x)); }
Number softplus(Number x) { return std::log1p(std::exp(x)); }
Number limited(Number x, Number low, Number high) { return x < low ? low : x > high ? high : x; }
Number hardSigmoid(Number x, Number alpha, Number beta) { return limited(alpha * x + beta, 0, 1); }

const Number kPi = std::acos(-1.0L);
bool byTanh(const OpCall &call) { return call.attrs->getString("approximate") == "tanh"; }
Number tanhOfGelu(Number x) { return std::tanh(std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)); }
Number normalShare(Number x) { return (1 + std::erf(x / std::sqrt(2.0L))) / 2; }
Number gelu(const OpCall &call, Number x) {
  return byTanh(call) ? x * (1 + tanhOfGelu(x)) / 2 : x * normalShare(x);
}
Number geluGrad(const OpCall &call, Number g, Number x) {
  const Number t = tanhOfGelu(x);
  return byTanh(call) ? g * ((1 + t) / 2 +
                             x * (1 - t * t) / 2 * std::sqrt(2 / kPi) * (1 + 3 * 0.044715L * x * x))
                      : g * (normalShare(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi));
}
Number swishGrad(Number alpha, Number g, Number x) {
  const Number s = sigmoid(alpha * x);
  return g * (s + alpha * x * s * (1 - s));
}
Number mishGrad(Number g, Number x) {
  const Number t = std::tanh(softplus(x));
  return g * (t + x * (1 - t * t) * sigmoid(x));
}

using N = Number;
using C = const OpCall &;
template <typename F> Definition one(F) { return each<1, F{}>; }
template <typename F> Definition two(F) { return each<2, F{}>; }

void defineArithmetic(Table &t) {
  const auto exact = Accuracy::Exact, moves = Accuracy::Moves;
  t["add"] = {two([](C c, N a, N b) { return plus(typeIn(c), a, b); })};
  t["sub"] = {two([](C c, N a, N b) { return plus(typeIn(c), a, times(typeIn(c), -1, b)); })};
  t["mul"] = {two([](C c, N a, N b) { return times(typeIn(c), a, b); })};
  t["div"] = {each<2, quotient>};
  t["pow"] = {each<2, power>};
  t["mod"] = {each<2, remainder>};
  t["maximum"] = {two([](N a, N b) { return a > b || std::isnan(a) ? a : b; }), exact};
  t["minimum"] = {two([](N a, N b) { return a < b || std::isnan(a) ? a : b; }), exact};
  t["equal"] = {two([](N a, N b) { return a == b; }), exact};
  t["less"] = {two([](N a, N b) { return a < b; }), exact};
  t["less_equal"] = {two([](N a, N b) { return a <= b; }), exact};
  t["greater"] = {two([](N a, N b) { return a > b; }), exact};
  t["greater_equal"] = {two([](N a, N b) { return a >= b; }), exact};
  t["where"] = {each<3, [](N c, N a, N b) { return c != 0 ? a : b; }>, moves};
  t["cast"] = {each<1, cast>, moves};
  t["affine"] = {each<1, affine>};
  t["clamp"] = {one([](C c, N x) { // integers stay between the bounds
                  return isInteger(c)
                             ? limited(x, std::ceil(attr(c, "min")), std::floor(attr(c, "max")))
                             : limited(x, attr(c, "min"), attr(c, "max"));
                }),
                exact};
  t["neg"] = {one([](C c, N x) { return isInteger(c) ? times(typeIn(c), -1, x) : -x; }), moves};
  t["abs"] = {one([](C c, N x) { return x < 0 ? times(typeIn(c), -1, x) : std::fabs(x); }), exact};
  t["sign"] = {one([](N x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }), exact};
  t["square"] = {one([](C c, N x) { return times(typeIn(c), x, x); })};
  t["reciprocal"] = {one([](N x) { return 1 / x; })};
  t["floor"] = {one([](N x) { return std::floor(x); }), exact};
  t["ceil"] = {one([](N x) { return std::ceil(x); }), exact};
  t["round"] = {one([](N x) { return std::isinf(x) ? x : x - std::remainder(x, 1.0L); }), exact};
  t["is_nan"] = {one([](N x) { return std::isnan(x); }), exact};
  t["is_positive"] = {one([](N x) { return x > 0 || std::isnan(x); }), exact};
  t["is_inf"] = {one([](C c, N x) {
                   return std::isinf(x) && c.attrs->getBool(x > 0 ? "positive" : "negative");
                 }),
                 exact};
  t["and"] = {each<2, bits<[](int64_t a, int64_t b) { return a & b; }>>};
  t["or"] = {each<2, bits<[](int64_t a, int64_t b) { return a | b; }>>};
  t["xor"] = {each<2, bits<[](int64_t a, int64_t b) { return a ^ b; }>>};
  t["not"] = {each<1, complement>};
  t["shift_left"] = {each<2, shift<true>>};
  t["shift_right"] = {each<2, shift<false>>};
}

void defineFunctions(Table &t) {
  t["exp"] = {one([](N x) { return std::exp(x); })};
  t["expm1"] = {one([](N x) { return std::expm1(x); })};
  t["log"] = {one([](N x) { return std::log(x); })};
  t["log1p"] = {one([](N x) { return std::log1p(x); })};
  t["sqrt"] = {one([](N x) { return std::sqrt(x); })};
  t["rsqrt"] = {one([](N x) { return 1 / std::sqrt(x); })};
  t["erf"] = {one([](N x) { return std::erf(x); })};
  t["sin"] = {one([](N x) { return std::sin(x); })};
  t["cos"] = {one([](N x) { return std::cos(x); })};
  t["tan"] = {one([](N x) { return std::tan(x); })};
  t["asin"] = {one([](N x) { return std::asin(x); })};
  t["acos"] = {one([](N x) { return std::acos(x); })};
  t["atan"] = {one([](N x) { return std::atan(x); })};
  t["sinh"] = {one([](N x) { return std::sinh(x); })};
  t["cosh"] = {one([](N x) { return std::cosh(x); })};
  t["tanh"] = {one([](N x) { return std::tanh(x); })};
  t["asinh"] = {one([](N x) { return std::asinh(x); })};
  t["acosh"] = {one([](N x) { return std::acosh(x); })};
  t["atanh"] = {one([](N x) { return std::atanh(x); })};
  t["logit"] = {one([](N x) { return std::log(x / (1 - x)); })};
  t["softplus_inverse"] = {one([](N x) { return std::log(std::expm1(x)); })};
}

void defineActivations(Table &t) {
  const auto exact = Accuracy::Exact;
  t["relu"] = {one([](N x) { return x <= 0 ? 0 : x; }), exact};
  t["softplus"] = {each<1, softplus>};
  t["sigmoid"] = {each<1, sigmoid>};
  t["silu"] = {one([](N x) { return x * sigmoid(x); })};
  t["swish"] = {one([](C c, N x) { return x * sigmoid(attr(c, "alpha") * x); })};
  t["mish"] = {one([](N x) { return x * std::tanh(softplus(x)); })};
  t["gelu"] = {each<1, gelu>};
  t["leaky_relu"] = {one([](C c, N x) { return x > 0 ? x : attr(c, "alpha") * x; })};
  t["prelu"] = {two([](N x, N slope) { return x > 0 ? x : slope * x; })};
  t["elu"] = {one([](C c, N x) {
    return attr(c, "scale") * (x > 0 ? x : attr(c, "alpha") * std::expm1(x / attr(c, "width")));
  })};
  t["elu_inverse"] = {one([](C c, N y) {
                        const N x = y / attr(c, "scale");
                        return y > 0 ? x : attr(c, "width") * std::log1p(x / attr(c, "alpha"));
                      }),
                      Accuracy::Sensitive};
  t["softsign"] = {one([](N x) { return x / (1 + std::fabs(x)); })};
  t["hard_sigmoid"] = {
      one([](C c, N x) { return hardSigmoid(x, attr(c, "alpha"), attr(c, "beta")); })};
  t["hard_swish"] = {one([](N x) { return x * hardSigmoid(x, 1 / 6.0L, 0.5L); })};
  t["thresholded_relu"] = {one([](C c, N x) { return x <= attr(c, "alpha") ? 0 : x; }), exact};
  t["shrink"] = {one([](C c, N x) {
    const N edge = attr(c, "lambda"), bias = attr(c, "bias");
    return x < -edge ? x + bias : x > edge ? x - bias : 0;
  })};

  t["relu_grad"] = {two([](N g, N v) { return v > 0 || std::isnan(v) ? g : 0; }), exact};
  t["clamp_grad"] = {two([](C c, N g, N v) {
                       const N min = attr(c, "min"), max = attr(c, "max");
                       const bool isAbove = v > min || std::isinf(min);
                       const bool isBelow = v < max || std::isinf(max);
                       return isAbove && isBelow ? g : 0;
                     }),
                     exact};
  t["leaky_relu_grad"] = {two([](C c, N g, N v) { return v > 0 ? g : attr(c, "alpha") * g; })};
  t["tanh_grad"] = {two([](N g, N v) { return g * (1 - v * v); })};
  t["sigmoid_grad"] = {two([](N g, N v) { return g * v * (1 - v); })};
  t["silu_grad"] = {two([](N g, N x) { return swishGrad(1, g, x); })};
  t["swish_grad"] = {two([](C c, N g, N x) { return swishGrad(attr(c, "alpha"), g, x); })};
  t["mish_grad"] = {each<2, mishGrad>};
  t["gelu_grad"] = {each<2, geluGrad>};
  t["elu_grad"] = {two([](C c, N g, N y) { // scale alpha exp(x / width) = y + scale alpha
    const N scale = attr(c, "scale");
    return g * (y <= 0 ? (y + scale * attr(c, "alpha")) / attr(c, "width") : scale);
  })};
  t["softsign_grad"] = {two([](N g, N v) { return g * std::pow(1 - std::fabs(v), 2); })};
  t["hard_swish_grad"] = {two([](N g, N x) {
    return g * (x <= -3 ? 0 : x < 3 ? hardSigmoid(x, 1 / 6.0L, 0.5L) + x / 6 : 1);
  })};
}

} // namespace

void defineElementwise(Table &t) {
  defineArithmetic(t);
  defineFunctions(t);
  defineActivations(t);
}

} // namespace isthmus::definitions
