// Arithmetic, comparisons and activations.

#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// The rows of functions are for floats.
Operand negated(NodeContext &n, const Operand &x) {
  return isFloat(x.type.dtype) ? n.emit("neg", {x}) : n.emit("affine", {x}, {{"scale", -1.0}});
}
void convertNeg(NodeContext &n) { n.result(0, negated(n, n.in(0))); }
void convertAbs(NodeContext &n) {
  const Operand &x = n.in(0);
  n.result(0, isFloat(x.type.dtype) ? n.emit("abs", {x}) : n.emit("maximum", {x, negated(n, x)}));
}
void convertXor(NodeContext &n) {
  n.result(0, n.emit("not", {n.emit("equal", {n.in(0), n.in(1)})}));
}
void convertIsNaN(NodeContext &n) {
  n.result(0, n.emit("not", {n.emit("equal", {n.in(0), n.in(0)})}));
}
void convertIdentity(NodeContext &n) { n.result(0, n.in(0)); }

// --- Arithmetic with a constant number becomes one node without a second operand

// Whether `c` is a number that broadcasts to `x` without changing its shape.
std::optional<double> numberBeside(const Operand &x, const Operand &c) {
  if (x.isConstant() || !isFloat(x.type.dtype) || c.type.rank() > x.type.rank() ||
      c.type.dtype != x.type.dtype)
    return std::nullopt;
  auto v = constantScalar(c);
  return v && std::isfinite(*v) ? v : std::nullopt;
}

void convertAdd(NodeContext &n) {
  const Operand &a = n.in(0), &b = n.in(1);
  if (auto c = numberBeside(a, b))
    return n.result(0, n.emit("affine", {a}, {{"shift", *c}}));
  if (auto c = numberBeside(b, a))
    return n.result(0, n.emit("affine", {b}, {{"shift", *c}}));
  n.result(0, n.emit("add", {a, b}));
}

void convertSub(NodeContext &n) {
  const Operand &a = n.in(0), &b = n.in(1);
  if (auto c = numberBeside(a, b))
    return n.result(0, n.emit("affine", {a}, {{"shift", -*c}}));
  if (auto c = numberBeside(b, a))
    return n.result(0, n.emit("affine", {b}, {{"scale", -1.0}, {"shift", *c}}));
  n.result(0, n.emit("sub", {a, b}));
}

void convertMul(NodeContext &n) {
  const Operand &a = n.in(0), &b = n.in(1);
  if (auto c = numberBeside(a, b))
    return n.result(0, n.emit("affine", {a}, {{"scale", *c}}));
  if (auto c = numberBeside(b, a))
    return n.result(0, n.emit("affine", {b}, {{"scale", *c}}));
  n.result(0, n.emit("mul", {a, b}));
}

void convertDiv(NodeContext &n) {
  const Operand &a = n.in(0), &b = n.in(1);
  // Integers are divided at import, and not by zero.
  if (!isFloat(b.type.dtype) && b.isConstant() && n.state.folding.look(b.type.elements()))
    for (int64_t i = 0; i < b.type.elements(); ++i)
      if (elementAsInt(b.data(), i) == 0)
        return n.fail("divides integers by zero");
  // The reciprocal is exact for powers of two only; with others the quotient's last bit would
  // change.
  if (auto c = numberBeside(a, b)) {
    int exponent;
    if (std::fabs(std::frexp(*c, &exponent)) == 0.5 && std::abs(exponent) < 100)
      return n.result(0, n.emit("affine", {a}, {{"scale", 1 / *c}}));
  }
  n.result(0, n.emit("div", {a, b}));
}

void convertPow(NodeContext &n) {
  const Operand &x = n.in(0);
  Operand exponent = n.in(1);
  if (auto p = constantScalar(exponent);
      p && isFloat(x.type.dtype) && exponent.type.rank() <= x.type.rank()) {
    if (*p == 1)
      return n.result(0, x);
    if (*p == 2)
      return n.result(0, n.emit("square", {x}));
    if (*p == 3)
      return n.result(0, n.emit("mul", {x, n.emit("square", {x})}));
    if (*p == 0.5)
      return n.result(0, n.emit("sqrt", {x}));
    if (*p == -0.5)
      return n.result(0, n.emit("rsqrt", {x}));
    if (*p == -1)
      return n.result(0, n.emit("reciprocal", {x}));
  }
  n.result(0, n.emit("pow", {x, n.cast(exponent, x.type.dtype)})); // the result has the base's type
}

// --- Any number of operands

Operand chain(NodeContext &n, const char *row) {
  Operand all = n.in(0);
  for (size_t i = 1; i < n.numInputs(); ++i)
    all = n.emit(row, {all, n.in(i)});
  return all;
}
void convertMax(NodeContext &n) { n.result(0, chain(n, "maximum")); }
void convertMin(NodeContext &n) { n.result(0, chain(n, "minimum")); }
void convertSum(NodeContext &n) { n.result(0, chain(n, "add")); }
void convertMean(NodeContext &n) {
  n.result(0, n.affine(chain(n, "add"), 1.0 / double(n.numInputs()), 0));
}

// --- Activations

void convertGelu(NodeContext &n) {
  std::string form = n.stringAttr("approximate", "none");
  n.result(0, n.emit("gelu", {n.in(0)}, {{"approximate", form}}));
}

void convertLeakyRelu(NodeContext &n) {
  n.result(0, n.emit("leaky_relu", {n.in(0)}, {{"alpha", n.floatAttr("alpha", 0.01)}}));
}

Operand clamp(NodeContext &n, const Operand &x, double min, double max) {
  return n.emit("clamp", {x}, {{"min", min}, {"max", max}});
}

Operand hardSigmoid(NodeContext &n, const Operand &x, double alpha, double beta) {
  return clamp(n, n.affine(x, alpha, beta), 0, 1);
}
void convertHardSigmoid(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 0.2), beta = n.floatAttr("beta", 0.5);
  n.result(0, hardSigmoid(n, n.in(0), alpha, beta));
}
void convertHardSwish(NodeContext &n) {
  n.result(0, n.emit("mul", {n.in(0), hardSigmoid(n, n.in(0), 1.0 / 6, 0.5)}));
}

// x where positive, else slope (exp(x / width) - 1), all times gain. The exponential is kept from
// overflowing where it is not used, or its gradient would be NaN there.
Operand elu(NodeContext &n, double gain, double slope, double width) {
  const Operand &x = n.in(0);
  Operand low = clamp(n, x, -INFINITY, 0);
  Operand bent =
      n.affine(n.emit("exp", {n.affine(low, 1 / width, 0)}), gain * slope, -gain * slope);
  Operand straight = n.affine(x, gain, 0);
  return n.emit("where",
                {n.emit("greater", {x, n.scalarConstant(x.type.dtype, 0)}), straight, bent});
}
void convertElu(NodeContext &n) { n.result(0, elu(n, 1, n.floatAttr("alpha", 1), 1)); }
void convertSelu(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 1.67326319217681884765625),
         gamma = n.floatAttr("gamma", 1.05070102214813232421875);
  n.result(0, elu(n, gamma, alpha, 1));
}
void convertCelu(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 1);
  if (alpha == 0)
    return n.fail("expects an alpha other than 0");
  n.result(0, elu(n, 1, alpha, alpha));
}

void convertPRelu(NodeContext &n) { // the slope is learned
  const Operand &x = n.in(0);
  n.result(
      0, n.emit("add", {n.emit("relu", {x}), n.emit("mul", {n.in(1), clamp(n, x, -INFINITY, 0)})}));
}

void convertThresholdedRelu(NodeContext &n) {
  const Operand &x = n.in(0);
  Operand passes = n.emit("greater", {x, n.scalarConstant(x.type.dtype, n.floatAttr("alpha", 1))});
  n.result(0, n.emit("where", {passes, x, n.scalarConstant(x.type.dtype, 0)}));
}

void convertSoftsign(NodeContext &n) {
  n.result(0, n.emit("div", {n.in(0), n.affine(n.emit("abs", {n.in(0)}), 1, 1)}));
}
void convertMish(NodeContext &n) {
  n.result(0, n.emit("mul", {n.in(0), n.emit("tanh", {n.emit("softplus", {n.in(0)})})}));
}
void convertSwish(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 1);
  if (alpha == 1)
    return n.result(0, n.emit("silu", {n.in(0)}));
  n.result(0, n.emit("mul", {n.in(0), n.emit("sigmoid", {n.affine(n.in(0), alpha, 0)})}));
}
void convertTan(NodeContext &n) {
  n.result(0, n.emit("div", {n.emit("sin", {n.in(0)}), n.emit("cos", {n.in(0)})}));
}

// --- Clip: bounds are attributes below opset 11, optional operands from there on

void clipTo(NodeContext &n, double min, double max) {
  if (std::isnan(min) || std::isnan(max))
    return n.fail("expects bounds that are numbers, got nan");
  if (min == -INFINITY && max == INFINITY)
    return n.result(0, n.in(0));
  n.result(0, clamp(n, n.in(0), std::min(min, max), max)); // min over max: max wins
}
void convertClip6(NodeContext &n) {
  double min = n.floatAttr("min", -INFINITY), max = n.floatAttr("max", INFINITY);
  clipTo(n, min, max);
}
void convertClip(NodeContext &n) {
  bool known = (!n.has(1) || n.in(1).isConstant()) && (!n.has(2) || n.in(2).isConstant());
  if (!isFloat(n.in(0).type.dtype) || !known) {
    Operand y = n.in(0);
    if (n.has(1))
      y = n.emit("maximum", {y, n.in(1)});
    if (n.has(2))
      y = n.emit("minimum", {y, n.in(2)});
    return n.result(0, y);
  }
  double min = n.has(1) ? n.scalar(1) : -INFINITY, max = n.has(2) ? n.scalar(2) : INFINITY;
  if (!n.failed())
    clipTo(n, min, max);
}

// --- Types and choices

void convertCast(NodeContext &n) {
  n.ignoreAttrs({"saturate", "round_mode"}); // of float8 alone
  auto to = elementType(int32_t(n.intAttr("to", 0)));
  if (!to)
    return llvm::handleAllErrors(
        to.takeError(), [&](const DiagError &e) { n.fail("{0}", e.diags.front().message); });
  n.result(0, n.cast(n.in(0), *to));
}
void convertCastLike(NodeContext &n) {
  n.ignoreAttrs({"saturate", "round_mode"});
  n.result(0, n.cast(n.in(0), n.in(1).type.dtype));
}
void convertWhere(NodeContext &n) { n.result(0, n.emit("where", {n.in(0), n.in(1), n.in(2)})); }

constexpr OnnxOp unary(llvm::StringRef name, llvm::StringRef row, uint32_t notLearned = 0) {
  return {name, 1, 1, 1, 1, nullptr, notLearned, row};
}
constexpr OnnxOp comparison(llvm::StringRef name, llvm::StringRef row) {
  return {name, 7, 2, 2, 1, nullptr, kAllOperands, row};
}

constexpr OnnxOp kOps[] = {
    {"Identity", 1, 1, 1, 1, convertIdentity, 0, {}, /*takesLists=*/true},
    unary("Relu", "relu"),
    unary("Sigmoid", "sigmoid"),
    unary("Tanh", "tanh"),
    unary("Exp", "exp"),
    unary("Log", "log"),
    unary("Sqrt", "sqrt"),
    unary("Reciprocal", "reciprocal"),
    {"Neg", 1, 1, 1, 1, convertNeg},
    {"Abs", 1, 1, 1, 1, convertAbs},
    unary("Sign", "sign", kAllOperands),
    unary("Sin", "sin"),
    unary("Cos", "cos"),
    {"Tan", 1, 1, 1, 1, convertTan},
    unary("Erf", "erf"),
    unary("Softplus", "softplus"),
    {"Softsign", 1, 1, 1, 1, convertSoftsign},
    {"Gelu", 1, 1, 1, 1, convertGelu},
    {"LeakyRelu", 1, 1, 1, 1, convertLeakyRelu},
    {"PRelu", 7, 2, 2, 1, convertPRelu},
    {"Elu", 1, 1, 1, 1, convertElu},
    {"Selu", 1, 1, 1, 1, convertSelu},
    {"Celu", 1, 1, 1, 1, convertCelu},
    {"ThresholdedRelu", 1, 1, 1, 1, convertThresholdedRelu},
    {"HardSigmoid", 1, 1, 1, 1, convertHardSigmoid},
    {"HardSwish", 1, 1, 1, 1, convertHardSwish},
    {"Mish", 1, 1, 1, 1, convertMish},
    {"Swish", 1, 1, 1, 1, convertSwish},
    {"Clip", 1, 1, 1, 1, convertClip6},
    {"Clip", 11, 1, 3, 1, convertClip, kAllButFirst},
    {"Add", 7, 2, 2, 1, convertAdd},
    {"Sub", 7, 2, 2, 1, convertSub},
    {"Mul", 7, 2, 2, 1, convertMul},
    {"Div", 7, 2, 2, 1, convertDiv},
    {"Pow", 7, 2, 2, 1, convertPow},
    {"Max", 1, 1, kAnyNumber, 1, convertMax},
    {"Min", 1, 1, kAnyNumber, 1, convertMin},
    {"Sum", 1, 1, kAnyNumber, 1, convertSum},
    {"Mean", 1, 1, kAnyNumber, 1, convertMean},
    comparison("Equal", "equal"),
    comparison("Less", "less"),
    comparison("LessOrEqual", "less_equal"),
    comparison("Greater", "greater"),
    comparison("GreaterOrEqual", "greater_equal"),
    comparison("And", "and"),
    comparison("Or", "or"),
    {"Xor", 7, 2, 2, 1, convertXor, kAllOperands},
    unary("Not", "not", kAllOperands),
    {"IsNaN", 1, 1, 1, 1, convertIsNaN, kAllOperands},
    {"Where", 7, 3, 3, 1, convertWhere, 1},
    {"Cast", 6, 1, 1, 1, convertCast},
    {"CastLike", 7, 2, 2, 1, convertCastLike, kAllButFirst},
};

} // namespace

OpRows elementwiseOps() { return kOps; }

} // namespace isthmus::onnx_import
