// Arithmetic, comparisons and activations, as standard operators.

#include "ir/onnx/export/body.h"
#include <cmath>

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

Names operandsIn(const RowWriter &w, DType type) { // all have operand 0's type
  Names in;
  for (const Known &o : w.operands)
    in.push_back(w.cast(o.name, w.dtype(), type));
  return in;
}
template <const char *Op> Names same(const RowWriter &w) {
  Names in;
  for (const Known &o : w.operands)
    in.push_back(o.name);
  return {w.b.emit(Op, in)};
}
// An operator that ONNX does not have for eight bits.
template <const char *Op> Names widened(const RowWriter &w) {
  return {w.cast(w.b.emit(Op, operandsIn(w, w.wide())), w.wide(), w.dtype())};
}
// A comparison by order. ONNX does not order bools, so they are compared as numbers.
template <const char *Op> Names ordered(const RowWriter &w) {
  return {w.b.emit(Op, operandsIn(w, w.dtype() == DType::Bool ? DType::U8 : w.dtype()))};
}

// A row that is one operator of the same operands.
#define ROW(row, op, write)                                                                        \
  constexpr char k_##row[] = op;                                                                   \
  constexpr ExportRow r_##row = {#row, write<k_##row>};
#define SAME(row, op) ROW(row, op, same)
SAME(add, "Add")
SAME(sub, "Sub")
SAME(mul, "Mul")
SAME(div, "Div")
ROW(pow, "Pow", widened)
SAME(maximum, "Max")
SAME(minimum, "Min")
SAME(equal, "Equal")
ROW(less, "Less", ordered)
ROW(less_equal, "LessOrEqual", ordered)
ROW(greater, "Greater", ordered)
ROW(greater_equal, "GreaterOrEqual", ordered)
SAME(where, "Where")
ROW(neg, "Neg", widened)
SAME(abs, "Abs")
SAME(sign, "Sign")
SAME(exp, "Exp")
SAME(log, "Log")
SAME(sqrt, "Sqrt")
SAME(reciprocal, "Reciprocal")
SAME(sin, "Sin")
SAME(cos, "Cos")
SAME(tan, "Tan")
SAME(asin, "Asin")
SAME(acos, "Acos")
SAME(atan, "Atan")
SAME(sinh, "Sinh")
SAME(cosh, "Cosh")
SAME(asinh, "Asinh")
SAME(acosh, "Acosh")
SAME(atanh, "Atanh")
SAME(erf, "Erf")
SAME(softplus, "Softplus")
SAME(softsign, "Softsign")
ROW(relu, "Relu", widened)
SAME(tanh, "Tanh")
SAME(sigmoid, "Sigmoid")
SAME(floor, "Floor")
SAME(ceil, "Ceil")
SAME(round, "Round")
SAME(is_nan, "IsNaN")
SAME(mish, "Mish")
SAME(identity, "Identity")
SAME(stop_gradient, "Identity") // always within a function, whose name is the row's
#undef SAME
#undef ROW

Name castTo(const RowWriter &w, const Name &v, int code) {
  return w.b.emit("Cast", {v}, {{"to", int64_t(code)}});
}
Names cast(const RowWriter &w) { // an operator even if the types are equal
  return {castTo(w, w.x(0), onnx_rows::elementCode(w.results[0].dtype))};
}

// The least and the greatest number of an integer type that a double can represent.
std::pair<double, double> rangeOf(DType type) {
  if (type == DType::U8)
    return {0, 255};
  double half = std::ldexp(1.0, int(8 * dtypeBytes(type)) - 1);
  return {-half, type == DType::I64 ? std::nextafter(half, 0.0) : half - 1};
}
bool isOf(DType type, double v) {
  auto [low, high] = rangeOf(type);
  return v == std::floor(v) && v >= low && v <= high;
}

// Integers are scaled as by the row: if scale or shift is not a number of the type, in f64, and
// results out of range are clamped.
Names affine(const RowWriter &w) {
  double scale = w.attrs.getFloat("scale"), shift = w.attrs.getFloat("shift");
  DType type = w.dtype();
  bool inDouble = !isFloat(type) && !(isOf(type, scale) && isOf(type, shift));
  Name y = w.x(0);
  if (inDouble) {
    y = w.cast(y, type, DType::F64);
    type = DType::F64;
  }
  bool plain = scale == 1 && shift == 0;
  if (scale != 1)
    y = w.b.emit("Mul", {y, w.b.number(type, scale)});
  if (shift != 0)
    y = w.b.emit("Add", {y, w.b.number(type, shift)});
  if (inDouble) {
    auto [low, high] = rangeOf(w.dtype());
    y = w.b.emit("Clip", {y, w.b.number(DType::F64, low), w.b.number(DType::F64, high)});
  }
  y = w.cast(y, type, w.dtype());
  return {plain ? w.b.emit("Identity", {y}) : y};
}

Names rsqrt(const RowWriter &w) { return {w.b.emit("Reciprocal", {w.b.emit("Sqrt", {w.x(0)})})}; }
Names square(const RowWriter &w) { return {w.b.emit("Mul", {w.x(0), w.x(0)})}; }
Names silu(const RowWriter &w) {
  return {w.b.emit("Mul", {w.x(0), w.b.emit("Sigmoid", {w.x(0)})})};
}
Names gelu(const RowWriter &w) {
  return {w.b.emit("Gelu", {w.x(0)}, {{"approximate", w.attrs.getString("approximate")}})};
}

Names clamp(const RowWriter &w) {
  double low = w.attrs.getFloat("min"), high = w.attrs.getFloat("max");
  // Fractional bounds are rounded inwards. Bounds out of range are dropped or clamped.
  if (!isFloat(w.dtype())) {
    auto [least, greatest] = rangeOf(w.dtype());
    low = low < least ? -INFINITY : std::min(std::ceil(low), greatest);
    high = high > greatest ? INFINITY : std::max(std::floor(high), least);
  }
  Names in{w.x(0)};
  if (!std::isinf(low) || !std::isinf(high))
    in.push_back(std::isinf(low) ? Name() : w.number(low));
  if (!std::isinf(high))
    in.push_back(w.number(high));
  return {w.b.emit("Clip", in)};
}

// An attribute is f32, so the slope would lose digits in other types.
Names leakyRelu(const RowWriter &w) {
  double alpha = w.attrs.getFloat("alpha");
  if (w.dtype() == DType::F32)
    return {w.b.emit("LeakyRelu", {w.x(0)}, {{"alpha", alpha}})};
  Name low = w.b.emit("Mul", {w.x(0), w.number(alpha)});
  return {w.b.emit("Where", {w.b.emit("Greater", {w.x(0), w.number(0)}), w.x(0), low})};
}

// --- Gradients that choose between g and another value

Names reluGrad(const RowWriter &w) {
  if (w.dtype(1) == DType::Bool)
    return {w.b.emit("Where", {w.x(1), w.x(0), w.number(0)})};
  return {w.b.emit("Where", {w.b.emit("LessOrEqual", {w.x(1), w.number(0)}), w.number(0), w.x(0)})};
}
Names leakyReluGrad(const RowWriter &w) {
  Name low = w.b.emit("Mul", {w.x(0), w.number(w.attrs.getFloat("alpha"))});
  return {w.b.emit("Where", {w.b.emit("Greater", {w.x(1), w.number(0)}), w.x(0), low})};
}
Names clampGrad(const RowWriter &w) {
  const double min = w.attrs.getFloat("min"), max = w.attrs.getFloat("max");
  Name above = w.b.emit(std::isinf(min) ? "GreaterOrEqual" : "Greater", {w.x(1), w.number(min)});
  Name below = w.b.emit(std::isinf(max) ? "LessOrEqual" : "Less", {w.x(1), w.number(max)});
  return {w.b.emit("Where", {w.b.emit("And", {above, below}), w.x(0), w.number(0)})};
}

Names runningAverage(const RowWriter &w) {
  double momentum = w.attrs.getFloat("momentum");
  return {w.b.emit("Add", {w.b.emit("Mul", {w.x(0), w.number(momentum)}),
                           w.b.emit("Mul", {w.x(1), w.number(1 - momentum)})})};
}

// --- Logic: bitwise on integers

Names logic(const RowWriter &w, const char *ofBools, const char *ofBits) {
  Names in;
  for (const Known &o : w.operands)
    in.push_back(o.name);
  return {w.b.emit(w.dtype() == DType::Bool ? ofBools : ofBits, in)};
}
Names logicAnd(const RowWriter &w) { return logic(w, "And", "BitwiseAnd"); }
Names logicOr(const RowWriter &w) { return logic(w, "Or", "BitwiseOr"); }
Names logicXor(const RowWriter &w) { return logic(w, "Xor", "BitwiseXor"); }
Names logicNot(const RowWriter &w) { return logic(w, "Not", "BitwiseNot"); }

// --- Shifts. ONNX shifts only unsigned integers, and only by fewer bits than they have.

Names shift(const RowWriter &w, bool up) {
  int64_t places = 8 * dtypeBytes(w.dtype());
  bool isSigned = w.dtype() != DType::U8;
  int code = places == 64 ? onnx::TensorProto::UINT64 : onnx::TensorProto::UINT32;
  auto bits = [&](const Name &v) { return isSigned ? castTo(w, v, code) : v; };
  Name a = w.x(0), inside = w.b.emit("Less", {w.x(1), w.number(double(places))}), negative;
  if (isSigned)
    inside = w.b.emit("And", {inside, w.b.emit("GreaterOrEqual", {w.x(1), w.number(0)})});
  // A right shift of signed integers shifts the sign in: negative numbers are complemented before
  // and after.
  if (isSigned && !up) {
    negative = w.b.emit("Less", {a, w.number(0)});
    a = w.b.emit("Where", {negative, w.b.emit("BitwiseNot", {a}), a});
  }
  Name by = w.b.emit("Where", {inside, w.x(1), w.number(0)});
  Name y = w.b.emit("BitShift", {bits(a), bits(by)},
                    {{"direction", std::string(up ? "LEFT" : "RIGHT")}});
  if (isSigned)
    y = castTo(w, y, onnx_rows::elementCode(w.dtype()));
  y = w.b.emit("Where", {inside, y, w.number(0)});
  if (!negative.empty())
    y = w.b.emit("Where", {negative, w.b.emit("BitwiseNot", {y}), y});
  return {y};
}
Names shiftLeft(const RowWriter &w) { return shift(w, true); }
Names shiftRight(const RowWriter &w) { return shift(w, false); }

// --- More functions

Names log1p(const RowWriter &w) {
  return {w.b.emit("Log", {w.b.emit("Add", {w.x(0), w.number(1)})})};
}
Names expm1(const RowWriter &w) {
  return {w.b.emit("Sub", {w.b.emit("Exp", {w.x(0)}), w.number(1)})};
}
Names isPositive(const RowWriter &w) { // or NaN
  return {w.b.emit("Not", {w.b.emit("LessOrEqual", {w.x(0), w.number(0)})})};
}
Names isInf(const RowWriter &w) {
  return {w.b.emit("IsInf", {w.x(0)},
                   {{"detect_positive", int64_t(w.attrs.getBool("positive"))},
                    {"detect_negative", int64_t(w.attrs.getBool("negative"))}})};
}

// ONNX has the floored remainder only for integers.
Names mod(const RowWriter &w) {
  bool fmod = w.attrs.getBool("fmod");
  if (!isFloat(w.dtype()) || fmod)
    return {w.b.emit("Mod", {w.x(0), w.x(1)}, {{"fmod", int64_t(fmod)}})};
  Name whole = w.b.emit("Floor", {w.b.emit("Div", {w.x(0), w.x(1)})});
  return {w.b.emit("Sub", {w.x(0), w.b.emit("Mul", {whole, w.x(1)})})};
}

Names elu(const RowWriter &w) {
  double alpha = w.attrs.getFloat("alpha"), scale = w.attrs.getFloat("scale"),
         width = w.attrs.getFloat("width");
  if (w.dtype() == DType::F32 && scale == 1 && width == 1)
    return {w.b.emit("Elu", {w.x(0)}, {{"alpha", alpha}})};
  Name low =
      w.b.emit("Sub", {w.b.emit("Exp", {w.b.emit("Div", {w.x(0), w.number(width)})}), w.number(1)});
  return {w.b.emit("Where", {w.b.emit("Greater", {w.x(0), w.number(0)}),
                             w.b.emit("Mul", {w.x(0), w.number(scale)}),
                             w.b.emit("Mul", {low, w.number(scale * alpha)})})};
}
Names swish(const RowWriter &w) {
  Name inner = w.b.emit("Mul", {w.x(0), w.number(w.attrs.getFloat("alpha"))});
  return {w.b.emit("Mul", {w.x(0), w.b.emit("Sigmoid", {inner})})};
}
Name hardSigmoidOf(const RowWriter &w, double alpha, double beta) {
  Name line = w.b.emit("Add", {w.b.emit("Mul", {w.x(0), w.number(alpha)}), w.number(beta)});
  return w.b.emit("Clip", {line, w.number(0), w.number(1)});
}
Names hardSigmoid(const RowWriter &w) {
  return {hardSigmoidOf(w, w.attrs.getFloat("alpha"), w.attrs.getFloat("beta"))};
}
Names hardSwish(const RowWriter &w) {
  return {w.b.emit("Mul", {w.x(0), hardSigmoidOf(w, 1.0 / 6, 0.5)})};
}
Names thresholdedRelu(const RowWriter &w) {
  return {w.b.emit("Where", {w.b.emit("Greater", {w.x(0), w.number(w.attrs.getFloat("alpha"))}),
                             w.x(0), w.number(0)})};
}
Names shrink(const RowWriter &w) {
  double lambda = w.attrs.getFloat("lambda"), bias = w.attrs.getFloat("bias");
  Name above = w.b.emit("Where", {w.b.emit("Greater", {w.x(0), w.number(lambda)}),
                                  w.b.emit("Sub", {w.x(0), w.number(bias)}), w.number(0)});
  return {w.b.emit("Where", {w.b.emit("Less", {w.x(0), w.number(-lambda)}),
                             w.b.emit("Add", {w.x(0), w.number(bias)}), above})};
}
Names prelu(const RowWriter &w) {
  return {w.b.emit("Where", {w.b.emit("Greater", {w.x(0), w.number(0)}), w.x(0),
                             w.b.emit("Mul", {w.x(0), w.x(1)})})};
}

constexpr ExportRow kRows[] = {
    r_add,
    r_sub,
    r_mul,
    r_div,
    r_pow,
    r_maximum,
    r_minimum,
    r_equal,
    r_less,
    r_less_equal,
    r_greater,
    r_where,
    r_neg,
    r_greater_equal,
    r_abs,
    r_sign,
    r_exp,
    r_log,
    r_sqrt,
    r_sin,
    r_reciprocal,
    r_cos,
    r_tan,
    r_asin,
    r_acos,
    r_atan,
    r_sinh,
    r_cosh,
    r_asinh,
    r_acosh,
    r_atanh,
    r_erf,
    r_softplus,
    r_relu,
    r_softsign,
    r_tanh,
    r_sigmoid,
    r_floor,
    r_ceil,
    r_mish,
    r_round,
    r_is_nan,
    r_identity,
    r_stop_gradient,
    {"cast", cast},
    {"affine", affine},
    {"rsqrt", rsqrt},
    {"square", square},
    {"silu", silu},
    {"gelu", gelu},
    {"clamp", clamp},
    {"leaky_relu", leakyRelu},
    {"relu_grad", reluGrad},
    {"leaky_relu_grad", leakyReluGrad},
    {"clamp_grad", clampGrad},
    {"running_average", runningAverage},
    {"and", logicAnd},
    {"or", logicOr},
    {"xor", logicXor},
    {"not", logicNot},
    {"shift_left", shiftLeft},
    {"shift_right", shiftRight},
    {"log1p", log1p},
    {"expm1", expm1},
    {"is_positive", isPositive},
    {"is_inf", isInf},
    {"mod", mod},
    {"elu", elu},
    {"swish", swish},
    {"hard_sigmoid", hardSigmoid},
    {"hard_swish", hardSwish},
    {"thresholded_relu", thresholdedRelu},
    {"shrink", shrink},
    {"prelu", prelu},
};

} // namespace

ExportRows elementwiseRows() { return kRows; }

} // namespace isthmus::onnx_export
