// Arithmetic, comparisons, logic and selection.

#include "ir/onnx/activation_formulas.h"
#include "ir/onnx/op_table.h"
#include "ir/onnx/torch_op.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// PyTorch's `detach` is exported as an Identity. It must stop gradients.
void convertIdentity(NodeContext &n) {
  Operand x = n.in(0);
  if (!n.failed() && !x.isList() && !x.isConstant() && torchOp(n.proto).startswith("aten.detach."))
    x = n.emit("stop_gradient", {x});
  n.result(0, x);
}

// --- Arithmetic with a constant number becomes one node without a second operand

// Whether `c` is a number that broadcasts to `x` without changing its shape.
std::optional<double> numberBeside(const Operand &x, const Operand &c) {
  if (x.isConstant() || !isFloat(x.type.dtype) || c.type.rank() > x.type.rank() ||
      c.type.dtype != x.type.dtype)
    return std::nullopt;
  auto v = constantScalar(c);
  return v && std::isfinite(*v) ? v : std::nullopt;
}

// The second of two operands. Below opset 7 an attribute `axis` may align its axes with those of
// the first operand from that axis on, instead of at the end.
Operand second(NodeContext &n) {
  const Operand &a = n.in(0), &b = n.in(1);
  if (n.opset() >= 7)
    return b;
  n.ignoreAttrs({"consumed_inputs"});
  bool broadcasts = n.intAttr("broadcast", 0) != 0;
  if (!n.hasAttr("axis"))
    return b;
  int64_t axis = n.axis(n.intAttr("axis", 0), a.type.rank()),
          after = a.type.rank() - axis - b.type.rank();
  if (!broadcasts || after < 0)
    n.fail("expects 'axis' with 'broadcast', and room for '{0}' from axis {1} of '{2}' on",
           b.type.str(), axis, a.type.str());
  if (n.failed())
    return b;
  Dims dims = b.type.dims;
  dims.append(size_t(after), 1);
  return n.reshape(b, dims);
}

void convertAdd(NodeContext &n) {
  const Operand &a = n.in(0), b = second(n);
  if (auto c = numberBeside(a, b))
    return n.result(0, n.emit("affine", {a}, {{"shift", *c}}));
  if (auto c = numberBeside(b, a))
    return n.result(0, n.emit("affine", {b}, {{"shift", *c}}));
  n.result(0, n.emit("add", {a, b}));
}

void convertSub(NodeContext &n) {
  const Operand &a = n.in(0), b = second(n);
  if (auto c = numberBeside(a, b))
    return n.result(0, n.emit("affine", {a}, {{"shift", -*c}}));
  if (auto c = numberBeside(b, a))
    return n.result(0, n.emit("affine", {b}, {{"scale", -1.0}, {"shift", *c}}));
  n.result(0, n.emit("sub", {a, b}));
}

void convertMul(NodeContext &n) {
  const Operand &a = n.in(0), b = second(n);
  for (auto [x, number] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (auto c = numberBeside(*x, *number)) {
      auto y = activationOfScaled(n, *x, *c);
      return n.result(0, y ? *y : n.emit("affine", {*x}, {{"scale", *c}}));
    }
  auto y = activationOfProduct(n, a, b);
  n.result(0, y ? *y : n.emit("mul", {a, b}));
}

void convertDiv(NodeContext &n) {
  const Operand &a = n.in(0), b = second(n);
  // The division may be folded at import, and integers must not be divided by zero.
  if (!isFloat(b.type.dtype) && b.isConstant() && n.state.folding.look(b.type.elements()))
    for (int64_t i = 0; i < b.type.elements(); ++i)
      if (elementAsInt(b.data(), i) == 0)
        return n.fail("divides integers by zero");
  // Only the reciprocal of a power of two is exact. Another reciprocal could change the quotient's
  // last bit.
  if (auto c = numberBeside(a, b)) {
    int exponent;
    if (std::fabs(std::frexp(*c, &exponent)) == 0.5 && std::abs(exponent) < 100)
      return n.result(0, n.emit("affine", {a}, {{"scale", 1 / *c}}));
  }
  n.result(0, n.emit("div", {a, b}));
}

void convertPow(NodeContext &n) {
  const Operand &x = n.in(0);
  Operand exponent = second(n);
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
  // The result has the base's type. An integer base with a float exponent is computed in f64.
  DType in = isFloat(x.type.dtype) || !isFloat(exponent.type.dtype) ? x.type.dtype : DType::F64;
  n.result(0, n.cast(n.emit("pow", {n.cast(x, in), n.cast(exponent, in)}), x.type.dtype));
}

// Comparisons and logic below opset 7.
void convertOldComparison(NodeContext &n) {
  llvm::StringRef row = llvm::StringSwitch<llvm::StringRef>(n.proto.op_type())
                            .Case("Equal", "equal")
                            .Case("Less", "less")
                            .Case("Greater", "greater")
                            .Case("And", "and")
                            .Case("Or", "or")
                            .Default("xor");
  n.result(0, n.emit(row, {n.in(0), second(n)}));
}

// --- Any number of operands

Operand chain(NodeContext &n, const char *row) {
  Operand all = n.in(0);
  for (size_t i = 1; i < n.numInputs(); ++i)
    all = n.emit(row, {all, n.in(i)});
  return all;
}
// With a number this is PyTorch's `clamp`, whose gradient is zero at the bound. Of two tensors that
// tie, each gets half of the gradient.
void extremum(NodeContext &n, const char *row, llvm::StringRef bound,
              std::initializer_list<llvm::StringRef> ofTensors) {
  std::optional<double> number;
  if (n.numInputs() == 2 && !llvm::is_contained(ofTensors, torchOp(n.proto)))
    for (size_t i : {0, 1})
      if (!number && (number = numberBeside(n.in(1 - i), n.in(i))))
        n.result(0, n.emit("clamp", {n.in(1 - i)}, {{bound.str(), *number}}));
  if (!number)
    n.result(0, chain(n, row));
}
void convertMax(NodeContext &n) {
  extremum(n, "maximum", "min", {"aten.maximum.default", "aten.max.other"});
}
void convertMin(NodeContext &n) {
  extremum(n, "minimum", "max", {"aten.minimum.default", "aten.min.other"});
}
void convertSum(NodeContext &n) { n.result(0, chain(n, "add")); }
void convertMean(NodeContext &n) {
  n.result(0, n.affine(chain(n, "add"), 1.0 / double(n.numInputs()), 0));
}

void convertBitShift(NodeContext &n) {
  std::string direction = n.stringAttr("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return n.fail("expects LEFT or RIGHT as attribute 'direction', got '{0}'", direction);
  n.result(0, n.emit(direction == "LEFT" ? "shift_left" : "shift_right", {n.in(0), n.in(1)}));
}

// --- Clip: bounds are attributes below opset 11, optional operands from there on

Operand clamp(NodeContext &n, const Operand &x, double min, double max) {
  return n.emit("clamp", {x}, {{"min", min}, {"max", max}});
}

void clipTo(NodeContext &n, double min, double max) {
  if (std::isnan(min) || std::isnan(max))
    return n.fail("expects bounds that are numbers, got nan");
  if (min == -INFINITY && max == INFINITY)
    return n.result(0, n.in(0));
  n.result(0, clamp(n, n.in(0), std::min(min, max), max)); // if min > max, max wins
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
  n.ignoreAttrs({"saturate", "round_mode"}); // they affect float8 only
  n.result(0, n.cast(n.in(0), n.typeAttr("to")));
}
void convertBitCast(NodeContext &n) {
  n.result(0, n.emit("bitcast", {n.in(0)}, {{"type", dtypeName(n.typeAttr("to")).str()}}));
}
void convertCastLike(NodeContext &n) {
  n.ignoreAttrs({"saturate", "round_mode"});
  n.result(0, n.cast(n.in(0), n.in(1).type.dtype));
}

void convertWhere(NodeContext &n) {
  if (auto y = softmaxOfMasked(n, n.in(0), n.in(1), n.in(2)))
    return n.result(0, *y);
  n.result(0, n.emit("where", {n.in(0), n.in(1), n.in(2)}));
}

constexpr OnnxOp comparison(llvm::StringRef name, llvm::StringRef row) {
  return {name, 7, 2, 2, 1, nullptr, kAllOperands, row};
}

constexpr OnnxOp kOps[] = {
    {"Identity", 1, 1, 1, 1, convertIdentity, 0, {}, /*takesLists=*/true},
    {"Clip", 1, 1, 1, 1, convertClip6},
    {"Clip", 11, 1, 3, 1, convertClip, kAllButFirst},
    {"Add", 1, 2, 2, 1, convertAdd},
    {"Sub", 1, 2, 2, 1, convertSub},
    {"Mul", 1, 2, 2, 1, convertMul},
    {"Div", 1, 2, 2, 1, convertDiv},
    {"Pow", 1, 2, 2, 1, convertPow},
    {"Max", 1, 1, kAnyNumber, 1, convertMax},
    {"Min", 1, 1, kAnyNumber, 1, convertMin},
    {"Sum", 1, 1, kAnyNumber, 1, convertSum},
    {"Mean", 1, 1, kAnyNumber, 1, convertMean},
    {"Equal", 1, 2, 2, 1, convertOldComparison, kAllOperands},
    {"Less", 1, 2, 2, 1, convertOldComparison, kAllOperands},
    {"Greater", 1, 2, 2, 1, convertOldComparison, kAllOperands},
    {"And", 1, 2, 2, 1, convertOldComparison, kAllOperands},
    {"Or", 1, 2, 2, 1, convertOldComparison, kAllOperands},
    {"Xor", 1, 2, 2, 1, convertOldComparison, kAllOperands},
    comparison("Equal", "equal"),
    comparison("Less", "less"),
    comparison("LessOrEqual", "less_equal"),
    comparison("Greater", "greater"),
    comparison("GreaterOrEqual", "greater_equal"),
    comparison("And", "and"),
    comparison("Or", "or"),
    comparison("Xor", "xor"),
    unary("Not", "not", kAllOperands),
    comparison("BitwiseAnd", "and"),
    comparison("BitwiseOr", "or"),
    comparison("BitwiseXor", "xor"),
    unary("BitwiseNot", "not", kAllOperands),
    {"BitShift", 11, 2, 2, 1, convertBitShift, kAllOperands},
    {"Where", 7, 3, 3, 1, convertWhere, 1},
    {"Cast", 6, 1, 1, 1, convertCast},
    {"CastLike", 7, 2, 2, 1, convertCastLike, kAllButFirst},
    {"BitCast", 1, 1, 1, 1, convertBitCast, kAllOperands},
};

} // namespace

OpRows elementwiseOps() { return kOps; }

} // namespace isthmus::onnx_import
