// Elementwise ops. Binary ones broadcast like numpy; their gradients are summed back to the
// operand's shape. Activations have gradient rows of their own, so that the backward pass needs one
// node and no temporaries; those rows have gradients too.

#include "ir/ops/elementwise_rows.h"
#include "ir/ops/signs.h"
#include "ir/value_facts.h"
#include <algorithm>
#include <cmath>

namespace isthmus {
namespace {

// --- Shape rules

llvm::Expected<TypeList> inferWhere(const InferContext &c) {
  if (c.operand(0).dtype != DType::Bool)
    return c.error("expects a bool condition, got '{0}'", c.operand(0).str());
  if (llvm::Error e = expectOneDType(c, 1))
    return e;
  auto dims = broadcastDims(c);
  if (!dims)
    return dims.takeError();
  return TypeList{c.operand(1).with(*dims)};
}

llvm::Expected<TypeList> inferCast(const InferContext &c) {
  auto to = parseDType(c.attrs.getString("type"));
  if (!to)
    return c.error("expects a type such as f32 or i64, got '{0}'", c.attrs.getString("type"));
  return TypeList{c.operand(0).with(*to)};
}

llvm::Expected<TypeList> inferClamp(const InferContext &c) {
  if (!(c.attrs.getFloat("min") <= c.attrs.getFloat("max")))
    return c.error("expects min <= max, got {0} and {1}", floatText(c.attrs.getFloat("min")),
                   floatText(c.attrs.getFloat("max")));
  return inferNumber(c);
}

// --- Gradients

ValueList vjpAdd(VjpContext &c) {
  return {c.wants(0) ? reduced(c, 0, c.grad(0)) : ValueId(),
          c.wants(1) ? reduced(c, 1, c.grad(0)) : ValueId()};
}

ValueList vjpSub(VjpContext &c) {
  return {c.wants(0) ? reduced(c, 0, c.grad(0)) : ValueId(),
          c.wants(1) ? c.b.neg(reduced(c, 1, c.grad(0))) : ValueId()};
}

ValueList vjpMul(VjpContext &c) {
  return {c.wants(0) ? reduced(c, 0, c.b.mul(c.grad(0), c.operand(1))) : ValueId(),
          c.wants(1) ? reduced(c, 1, c.b.mul(c.grad(0), c.operand(0))) : ValueId()};
}

ValueList vjpDiv(VjpContext &c) {
  ValueList out(2);
  if (!c.wants(0) && !c.wants(1))
    return out;
  ValueId da = c.b.div(c.grad(0), c.operand(1));
  if (c.wants(0))
    out[0] = reduced(c, 0, da);
  if (c.wants(1))
    out[1] = c.b.neg(reduced(c, 1, c.b.mul(da, c.result(0))));
  return out;
}

// p x^(p-1) and x^p log x. A term with a zero factor is zero, even if the other factor is infinite:
// this gives the slope of x^0 in x, and that of 0^p in p for p >= 0.
ValueList vjpPow(VjpContext &c) {
  Builder &b = c.b;
  ValueId x = c.operand(0), p = c.operand(1), g = c.grad(0);
  ValueId zero = b.zeros(Type(c.type(g).dtype, {}));
  ValueList out(2);
  if (c.wants(0)) {
    ValueId slope = b.mul(p, b.create("pow", {x, b.shift(p, -1)}));
    slope = b.create("where", {b.create("equal", {p, zero}), zero, slope});
    out[0] = reduced(c, 0, b.mul(g, slope));
  }
  if (c.wants(1)) {
    ValueId slope = b.mul(c.result(0), b.create("log", {x}));
    ValueId none =
        b.create("and", {b.create("equal", {x, zero}), b.create("greater_equal", {p, zero})});
    out[1] = reduced(c, 1, b.mul(g, b.create("where", {none, zero, slope})));
  }
  return out;
}

// The gradient goes to the larger (smaller) operand. Ties give a half to each, as in PyTorch and
// JAX. If one is NaN, both get all of it, as in PyTorch.
ValueList vjpExtremum(VjpContext &c, const char *compare) {
  Builder &b = c.b;
  ValueId tie = b.create("equal", {c.operand(0), c.operand(1)});
  ValueId zero = b.zeros(Type(c.type(c.grad(0)).dtype, {})), half = b.scale(c.grad(0), 0.5);
  ValueList out(2);
  for (size_t i : {0, 1})
    if (c.wants(i)) {
      ValueId other = b.create(compare, {c.operand(1 - i), c.operand(i)});
      ValueId share = b.create("where", {other, zero, c.grad(0)});
      out[i] = reduced(c, i, b.create("where", {tie, half, share}));
    }
  return out;
}
ValueList vjpMaximum(VjpContext &c) { return vjpExtremum(c, "greater"); }
ValueList vjpMinimum(VjpContext &c) { return vjpExtremum(c, "less"); }

ValueList vjpWhere(VjpContext &c) {
  ValueId zero = c.b.zeros(Type(c.type(c.grad(0)).dtype, {}));
  ValueList out(3);
  if (c.wants(1))
    out[1] = reduced(c, 1, c.b.create("where", {c.operand(0), c.grad(0), zero}));
  if (c.wants(2))
    out[2] = reduced(c, 2, c.b.create("where", {c.operand(0), zero, c.grad(0)}));
  return out;
}

ValueList vjpCast(VjpContext &c) {
  if (!isFloat(c.type(c.operand(0)).dtype) || !isFloat(c.type(c.result(0)).dtype))
    return {ValueId()};
  return {c.b.cast(c.grad(0), c.type(c.operand(0)).dtype)};
}

ValueList vjpAffine(VjpContext &c) {
  double s = c.attrs.getFloat("scale");
  return {s == 1 ? c.grad(0) : c.b.scale(c.grad(0), s)};
}

ValueList vjpNeg(VjpContext &c) { return {c.b.neg(c.grad(0))}; }
ValueList vjpAbs(VjpContext &c) { return {c.b.mul(c.grad(0), c.b.create("sign", {c.operand(0)}))}; }
ValueList vjpExp(VjpContext &c) { return {c.b.mul(c.grad(0), c.result(0))}; }
ValueList vjpLog(VjpContext &c) { return {c.b.div(c.grad(0), c.operand(0))}; }
ValueList vjpSqrt(VjpContext &c) { return {c.b.scale(c.b.div(c.grad(0), c.result(0)), 0.5)}; }
ValueList vjpReciprocal(VjpContext &c) {
  return {c.b.neg(c.b.mul(c.grad(0), c.b.mul(c.result(0), c.result(0))))};
}
ValueList vjpRsqrt(VjpContext &c) { // y = x^-1/2, dy/dx = -y^3 / 2
  ValueId y = c.result(0);
  return {c.b.scale(c.b.mul(c.grad(0), c.b.mul(y, c.b.mul(y, y))), -0.5)};
}
ValueList vjpSquare(VjpContext &c) { return {c.b.scale(c.b.mul(c.grad(0), c.operand(0)), 2)}; }
ValueList vjpSin(VjpContext &c) { return {c.b.mul(c.grad(0), c.b.create("cos", {c.operand(0)}))}; }
ValueList vjpCos(VjpContext &c) {
  return {c.b.neg(c.b.mul(c.grad(0), c.b.create("sin", {c.operand(0)})))};
}
ValueList vjpErf(VjpContext &c) { // 2 / sqrt(pi) exp(-x^2)
  ValueId bell = c.b.create("exp", {c.b.neg(c.b.create("square", {c.operand(0)}))});
  return {c.b.scale(c.b.mul(c.grad(0), bell), 2 / std::sqrt(M_PI))};
}
ValueList vjpSoftplus(VjpContext &c) {
  return {c.b.mul(c.grad(0), c.b.create("sigmoid", {c.operand(0)}))};
}

// Activations with gradient rows.
ValueList vjpRelu(VjpContext &c) { return {c.b.create("relu_grad", {c.grad(0), c.result(0)})}; }
ValueList vjpTanh(VjpContext &c) { return {c.b.create("tanh_grad", {c.grad(0), c.result(0)})}; }
ValueList vjpSigmoid(VjpContext &c) {
  return {c.b.create("sigmoid_grad", {c.grad(0), c.result(0)})};
}
ValueList vjpSilu(VjpContext &c) { return {c.b.create("silu_grad", {c.grad(0), c.operand(0)})}; }
ValueList vjpGelu(VjpContext &c) {
  return {c.b.create("gelu_grad", {c.grad(0), c.operand(0)},
                     {{"approximate", c.attrs.getString("approximate")}})};
}
ValueList vjpClamp(VjpContext &c) {
  return {c.b.create("clamp_grad", {c.grad(0), c.operand(0)}, c.attrs)};
}
// If the slope is not negative, the result is positive exactly where the operand is, so the
// gradient can read the result, and the operand need not be kept.
ValueList vjpLeakyRelu(VjpContext &c) {
  ValueId v = c.attrs.getFloat("alpha") >= 0 ? c.result(0) : c.operand(0);
  return {c.b.create("leaky_relu_grad", {c.grad(0), v}, c.attrs)};
}

// Rows f_grad(g, x) of piecewise linear f: linear in g, piecewise constant in x.
ValueList vjpSameRow(VjpContext &c, const char *row) {
  return {c.wants(0) ? c.b.create(row, {c.grad(0), c.operand(1)}, c.attrs) : ValueId(), ValueId()};
}
llvm::Expected<TypeList> inferReluGrad(const InferContext &c) {
  const bool isMask = c.operand(1) == c.operand(0).with(DType::Bool);
  return isMask && isFloat(c.operand(0).dtype) ? TypeList{c.operand(0)} : inferGradPair(c);
}
ValueList vjpReluGrad(VjpContext &c) { return vjpSameRow(c, "relu_grad"); }
ValueList vjpClampGrad(VjpContext &c) { return vjpSameRow(c, "clamp_grad"); }
ValueList vjpLeakyReluGrad(VjpContext &c) { return vjpSameRow(c, "leaky_relu_grad"); }

// --- Expansions, for second derivatives

ValueList expandTanhGrad(ExpandContext &c) { // g (1 - y^2)
  ValueId y = c.operands[1];
  return {c.b.mul(c.operands[0], c.b.shift(c.b.neg(c.b.create("square", {y})), 1))};
}
ValueList expandSigmoidGrad(ExpandContext &c) { // g y (1 - y)
  ValueId y = c.operands[1];
  return {c.b.mul(c.operands[0], c.b.mul(y, c.b.shift(c.b.neg(y), 1)))};
}
ValueList expandSiluGrad(ExpandContext &c) { // g (s + x s (1 - s))
  ValueId x = c.operands[1], s = c.b.create("sigmoid", {x});
  ValueId rest = c.b.mul(x, c.b.mul(s, c.b.shift(c.b.neg(s), 1)));
  return {c.b.mul(c.operands[0], c.b.add(s, rest))};
}
ValueList expandGeluGrad(ExpandContext &c) {
  Builder &b = c.b;
  ValueId g = c.operands[0], x = c.operands[1];
  if (c.attrs.getString("approximate") == "tanh") {
    // y = x (1 + t) / 2, t = tanh(u), u = k (x + a x^3)
    const double k = std::sqrt(2 / M_PI), a = 0.044715;
    ValueId x2 = b.create("square", {x});
    ValueId u = b.scale(b.mul(x, b.shift(b.scale(x2, a), 1)), k);
    ValueId t = b.create("tanh", {u});
    ValueId du = b.scale(b.shift(b.scale(x2, 3 * a), 1), k);
    ValueId dt = b.mul(b.shift(b.neg(b.create("square", {t})), 1), du);
    return {b.mul(g, b.scale(b.add(b.shift(t, 1), b.mul(x, dt)), 0.5))};
  }
  // y = x Phi(x): Phi(x) + x phi(x)
  ValueId cdf = b.scale(b.shift(b.create("erf", {b.scale(x, std::sqrt(0.5))}), 1), 0.5);
  ValueId pdf =
      b.scale(b.create("exp", {b.scale(b.create("square", {x}), -0.5)}), 1 / std::sqrt(2 * M_PI));
  return {b.mul(g, b.add(cdf, b.mul(x, pdf)))};
}

// --- Inverses

// Whether the operand was not broadcast.
bool isWhole(const InverseContext &c) { return c.b.type(c.results[0]) == c.want; }

ValueId inverseAdd(InverseContext &c, size_t i) {
  return isWhole(c) ? c.b.sub(c.results[0], c.operands[1 - i]) : ValueId();
}
ValueId inverseSub(InverseContext &c, size_t i) {
  if (!isWhole(c))
    return ValueId();
  return i == 0 ? c.b.add(c.results[0], c.operands[1]) : c.b.sub(c.operands[0], c.results[0]);
}
// Integers lose bits in a product or a quotient.
ValueId inverseMul(InverseContext &c, size_t i) {
  return isWhole(c) && isFloat(c.want.dtype) ? c.b.div(c.results[0], c.operands[1 - i]) : ValueId();
}
ValueId inverseDiv(InverseContext &c, size_t i) {
  if (!isWhole(c) || !isFloat(c.want.dtype))
    return ValueId();
  return i == 0 ? c.b.mul(c.results[0], c.operands[1]) : c.b.div(c.operands[0], c.results[0]);
}
// If the dividend is zero, the quotient does not determine the divisor.
bool inverseDivHolds(const ValueFacts &facts, const Node &n, size_t i) {
  return i == 0 || facts.isNeverZero(n.operands[0]);
}
bool otherIsNeverZero(const ValueFacts &facts, const Node &n, size_t i) {
  return facts.isNeverZero(n.operands[1 - i]);
}

constexpr char kLog[] = "log", kExp[] = "exp", kSquare[] = "square", kReciprocal[] = "reciprocal",
               kAtanh[] = "atanh", kLogit[] = "logit", kSoftplusInverse[] = "softplus_inverse",
               kNeg[] = "neg";

ValueId inverseRsqrt(InverseContext &c, size_t) { // x = y^-2
  return c.b.create("reciprocal", {c.b.create("square", {c.results[0]})});
}
ValueId inverseLeakyRelu(InverseContext &c, size_t) {
  double alpha = c.attrs.getFloat("alpha");
  if (!(alpha > 0))
    return ValueId();
  return c.b.create("leaky_relu", {c.results[0]}, {{"alpha", 1 / alpha}});
}
// Between floats alone: a cast to a type that holds all values of the first can be undone.
ValueId inverseCast(InverseContext &c, size_t) {
  DType from = c.want.dtype, to = c.b.type(c.results[0]).dtype;
  bool holdsAll = from == to || (isFloat(from) && to == DType::F64) ||
                  (isFloat(from) && from != DType::F64 && to == DType::F32);
  return holdsAll ? c.b.cast(c.results[0], from) : ValueId();
}
ValueId inverseAffine(InverseContext &c, size_t) {
  double s = c.attrs.getFloat("scale");
  if (s == 0 || !isFloat(c.want.dtype))
    return ValueId();
  return c.b.create("affine", {c.results[0]},
                    {{"scale", 1 / s}, {"shift", -c.attrs.getFloat("shift") / s}});
}

// --- Signs

Sign signAdd(const Attrs &, llvm::ArrayRef<Sign> s) {
  return s[0] == Sign::Positive && s[1] == Sign::Positive ? Sign::Positive : Sign::Any;
}
Sign signMaximum(const Attrs &, llvm::ArrayRef<Sign> s) {
  return s[0] == Sign::Positive || s[1] == Sign::Positive ? Sign::Positive : Sign::Any;
}
Sign signAffine(const Attrs &attrs, llvm::ArrayRef<Sign> s) {
  double scale = attrs.getFloat("scale"), shift = attrs.getFloat("shift");
  if (s[0] == Sign::Positive && scale >= 0 && shift >= 0 && scale + shift > 0)
    return Sign::Positive;
  return s[0] != Sign::Any && scale != 0 && shift == 0 ? Sign::NonZero : Sign::Any;
}
Sign signClamp(const Attrs &attrs, llvm::ArrayRef<Sign>) {
  return attrs.getFloat("min") > 0 ? Sign::Positive : Sign::Any;
}
// A cast to integers may round to zero.
Sign signCast(const Attrs &attrs, llvm::ArrayRef<Sign> s) {
  auto to = parseDType(attrs.getString("type"));
  return to && isFloat(*to) ? s[0] : Sign::Any;
}

// --- Rows

// Makes a row of floats accept integers too.
OpDef ofNumbers(OpDef row) {
  row.infer = inferNumber;
  row.examples.push_back(row.name + "(i64[2, 3])");
  return row;
}

} // namespace

void registerElementwiseOps(OpRegistry &r) {
  r.add(withSign(
      withInverse(binary("add", "The sum, with numpy's broadcasting.", vjpAdd), inverseAdd),
      signAdd));
  r.add(
      withInverse(binary("sub", "The difference, with numpy's broadcasting.", vjpSub), inverseSub));
  OpDef mul =
      withInverse(binary("mul", "The product, with numpy's broadcasting.", vjpMul), inverseMul);
  mul.inverseHolds = otherIsNeverZero;
  r.add(withSign(std::move(mul), signOfOperands));
  OpDef div = withInverse(
      binary("div", "The quotient, with numpy's broadcasting; integers round towards zero.", vjpDiv,
             0.5, 2),
      inverseDiv);
  div.inverseHolds = inverseDivHolds;
  div.sign = signOfOperands;
  r.add(std::move(div));
  r.add(binary("pow", "The power a to the b, with numpy's broadcasting.", vjpPow, 0.5, 2));
  r.add(
      withSign(binary("maximum", "The larger of two, with numpy's broadcasting; NaN if either is.",
                      vjpMaximum),
               signMaximum));
  r.add(binary("minimum", "The smaller of two, with numpy's broadcasting; NaN if either is.",
               vjpMinimum));

  OpDef equal = compare("equal", "Whether two are equal.");
  equal.comparedOperands = {0, 1};
  r.add(std::move(equal));
  r.add(compare("less", "Whether the first is smaller."));
  r.add(compare("less_equal", "Whether the first is smaller or equal."));
  r.add(compare("greater", "Whether the first is larger."));
  r.add(compare("greater_equal", "Whether the first is larger or equal."));
  r.add(
      {{.name = "where",
        .doc =
            "The second operand where the first holds, else the third; with numpy's broadcasting.",
        .operands = "condition a b",
        .results = "y",
        .traits = kElementwise,
        .infer = inferWhere,
        .vjp = vjpWhere,
        .inPlace = {{0, 1}, {0, 2}},
        .examples = {"where(bool[2, 3], f64[2, 3], f64[2, 3])",
                     "where(bool[3], f64[2, 3], f64[])"}},
       {.name = "cast",
        .doc = "The operand in another element type. Floats become integers by rounding towards "
               "zero, and true "
               "is one.",
        .operands = "x",
        .results = "y",
        .attrs = {{"type", AttrKind::String, {}, "the element type to convert to"}},
        .traits = kElementwise | kNotACheckpoint,
        .infer = inferCast,
        .vjp = vjpCast,
        .inverse = inverseCast,
        .inverseKeepsBits = true,
        .sign = signCast,
        .examples = {"cast(f64[2, 3]) {type = f32}", "cast(i64[3]) {type = f64}",
                     "cast(f64[2, 3]) {type = f64}"}},
       {.name = "affine",
        .doc = "scale * x + shift.",
        .operands = "x",
        .results = "y",
        .attrs = {{"scale", AttrKind::Float, 1.0, "the factor"},
                  {"shift", AttrKind::Float, 0.0, "the constant that is added after scaling"}},
        .traits = kElementwise,
        .infer = inferNumber,
        .vjp = vjpAffine,
        .inverse = inverseAffine,
        .sign = signAffine,
        .inPlace = overFirst(),
        .examples = {"affine(f64[2, 3]) {scale = -1.5, shift = 0.25}"}}});

  OpDef neg = withInverse(ofNumbers(unary("neg", "The negative.", vjpNeg, -2, 2, nullptr)),
                          inverseBy<kNeg>);
  neg.inverseKeepsBits = true;
  r.add(withSign(std::move(neg), signIfNonZero));
  r.add(
      withSign(ofNumbers(unary("abs", "The absolute value.", vjpAbs, -2, 2, nullptr)), signOfSize));
  OpDef sign = ofNumbers(unary("sign", "-1, 0 or 1; 0 for NaN.", nullptr, -2, 2, nullptr));
  sign.differentiable = Differentiable::ZeroGradient;
  r.add(std::move(sign));
  r.add(withSign(withInverse(unary("exp", "The exponential.", vjpExp), inverseBy<kLog>),
                 signPositive));
  r.add(withInverse(unary("log", "The natural logarithm.", vjpLog, 0.5, 2), inverseBy<kExp>));
  r.add(
      withSign(withInverse(unary("sqrt", "The square root.", vjpSqrt, 0.5, 2), inverseBy<kSquare>),
               signOfOperands));
  r.add(withSign(
      withInverse(unary("rsqrt", "One over the square root.", vjpRsqrt, 0.5, 2), inverseRsqrt),
      signPositive));
  r.add(withSign(withInverse(unary("reciprocal", "One over the operand.", vjpReciprocal, 0.5, 2),
                             inverseBy<kReciprocal>),
                 signOfOperands));
  r.add(withSign(ofNumbers(unary("square", "The square.", vjpSquare, -2, 2, nullptr)), signOfSize));
  r.add(unary("sin", "The sine of radians.", vjpSin));
  r.add(unary("cos", "The cosine of radians.", vjpCos));
  r.add(unary("erf", "The Gauss error function.", vjpErf));
  r.add(withSign(
      withInverse(unary("softplus", "log(1 + exp(x)).", vjpSoftplus), inverseBy<kSoftplusInverse>),
      signPositive));

  OpDef relu =
      ofNumbers(unary("relu", "The operand where positive, else zero.", vjpRelu, -2, 2, nullptr));
  relu.traits |= kTellsResultBits; // the gradient tests for zeros
  r.add(std::move(relu));
  r.add(withInverse(unary("tanh", "The hyperbolic tangent.", vjpTanh), inverseBy<kAtanh>));
  r.add(withSign(withInverse(unary("sigmoid", "1 / (1 + exp(-x)).", vjpSigmoid), inverseBy<kLogit>),
                 signPositive));
  r.add(unary("silu", "x * sigmoid(x).", vjpSilu));
  std::vector<AttrDef> approximate = {{"approximate", AttrKind::String, std::string("none"),
                                       "none: by erf; tanh: the approximation by tanh"}};
  std::vector<AttrDef> bounds = {{"min", AttrKind::Float, -INFINITY, "the least value"},
                                 {"max", AttrKind::Float, INFINITY, "the greatest value"}};
  std::vector<AttrDef> alpha = {
      {"alpha", AttrKind::Float, 0.01, "the slope for negative operands"}};
  r.add(with(unary("gelu", "x * Phi(x), Phi being the normal distribution function.", vjpGelu),
             approximate, {"gelu(f64[2, 3])", "gelu(f64[2, 3]) {approximate = tanh}"}));
  OpDef clamp =
      with(unary("clamp", "The operand, no less than min and no more than max.", vjpClamp), bounds,
           {"clamp(f64[2, 5]) {min = 0.0, max = 1.0}"});
  clamp.infer = inferClamp;
  clamp.sign = signClamp;
  r.add(std::move(clamp));
  r.add(withInverse(
      with(unary("leaky_relu", "The operand where positive, else alpha times it.", vjpLeakyRelu),
           alpha, {"leaky_relu(f64[2, 3])", "leaky_relu(f64[2, 3]) {alpha = -0.25}"}),
      inverseLeakyRelu));

  OpDef reluGrad = gradRow("relu_grad",
                           "g where v is positive or NaN, else zero. v is relu's operand, its "
                           "result, or the mask of such elements.",
                           vjpReluGrad, nullptr);
  reluGrad.infer = inferReluGrad;
  reluGrad.encodings = {{1, "is_positive"}};
  reluGrad.examples.push_back("relu_grad(f64[2, 3], bool[2, 3])");
  r.add(std::move(reluGrad));
  r.add(gradRow("tanh_grad", "g (1 - v^2), v being tanh's result.", nullptr, expandTanhGrad));
  r.add(gradRow("sigmoid_grad", "g v (1 - v), v being sigmoid's result.", nullptr,
                expandSigmoidGrad));
  r.add(gradRow("silu_grad", "The gradient of silu at v.", nullptr, expandSiluGrad));
  OpDef geluGrad =
      gradRow("gelu_grad", "The gradient of gelu at v.", nullptr, expandGeluGrad, approximate);
  geluGrad.examples.push_back("gelu_grad(f64[2, 3], f64[2, 3]) {approximate = tanh}");
  geluGrad.cost = costTranscendental;
  r.add(std::move(geluGrad));
  OpDef clampGrad = gradRow("clamp_grad",
                            "g where v is strictly between min and max, else zero, for NaN "
                            "too. An infinite bound does not bound an infinite v.",
                            vjpClampGrad, nullptr, bounds);
  clampGrad.examples = {"clamp_grad(f64[2, 5], f64[2, 5]) {min = 0.0, max = 1.0}"};
  r.add(std::move(clampGrad));
  r.add(gradRow("leaky_relu_grad",
                "g where v is positive, else alpha times g. v is leaky_relu's operand, or its "
                "result if alpha is not negative.",
                vjpLeakyReluGrad, nullptr, alpha));

  registerMathOps(r);
  registerBitOps(r);
  registerActivationOps(r);
}

} // namespace isthmus
