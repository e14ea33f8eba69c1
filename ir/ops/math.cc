// Unary functions that are not in elementwise.cc, rounding, remainders, and tests for kinds of
// numbers (NaN, infinite).

#include "ir/ops/elementwise_rows.h"
#include "ir/ops/signs.h"
#include <cmath>

namespace isthmus {
namespace {

// --- Gradients

// dx = g / (x + 1)
ValueList vjpLog1p(VjpContext &c) { return {c.b.div(c.grad(0), c.b.shift(c.operand(0), 1))}; }
// dx = g e^x, and e^x = y + 1
ValueList vjpExpm1(VjpContext &c) { return {c.b.mul(c.grad(0), c.b.shift(c.result(0), 1))}; }
// dx = g (1 + y^2)
ValueList vjpTan(VjpContext &c) {
  return {c.b.mul(c.grad(0), c.b.shift(c.b.create("square", {c.result(0)}), 1))};
}

// (`scale` x^2 + `shift`)^(-1/2)
ValueId inverseRoot(VjpContext &c, double scale, double shift) {
  ValueId square = c.b.create("square", {c.operand(0)});
  return c.b.create("rsqrt",
                    {c.b.create("affine", {square}, {{"scale", scale}, {"shift", shift}})});
}
ValueList vjpAsin(VjpContext &c) { return {c.b.mul(c.grad(0), inverseRoot(c, -1, 1))}; }
ValueList vjpAcos(VjpContext &c) { return {c.b.neg(c.b.mul(c.grad(0), inverseRoot(c, -1, 1)))}; }
ValueList vjpAsinh(VjpContext &c) { return {c.b.mul(c.grad(0), inverseRoot(c, 1, 1))}; }
ValueList vjpAcosh(VjpContext &c) { return {c.b.mul(c.grad(0), inverseRoot(c, 1, -1))}; }
ValueList vjpAtan(VjpContext &c) { // g / (1 + x^2)
  return {c.b.div(c.grad(0), c.b.shift(c.b.create("square", {c.operand(0)}), 1))};
}
ValueList vjpAtanh(VjpContext &c) { // g / (1 - x^2)
  ValueId square = c.b.create("square", {c.operand(0)});
  return {c.b.div(c.grad(0), c.b.shift(c.b.neg(square), 1))};
}
ValueList vjpSinh(VjpContext &c) {
  return {c.b.mul(c.grad(0), c.b.create("cosh", {c.operand(0)}))};
}
ValueList vjpCosh(VjpContext &c) {
  return {c.b.mul(c.grad(0), c.b.create("sinh", {c.operand(0)}))};
}

// y = a - q b with an integer q, which is locally constant: q = (a - y) / b.
ValueList vjpMod(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(2);
  if (c.wants(0))
    out[0] = reduced(c, 0, c.grad(0));
  if (c.wants(1)) {
    ValueId q = b.div(b.sub(c.operand(0), c.result(0)), c.operand(1));
    out[1] = b.neg(reduced(c, 1, b.mul(c.grad(0), b.create("stop_gradient", {q}))));
  }
  return out;
}

// --- Inverses, and rows that serve as inverses

constexpr char kLog1p[] = "log1p", kExpm1[] = "expm1", kSinh[] = "sinh", kAsinh[] = "asinh",
               kCosh[] = "cosh", kTanh[] = "tanh", kSin[] = "sin", kCos[] = "cos", kTan[] = "tan",
               kSigmoid[] = "sigmoid", kSoftplus[] = "softplus";

ValueList expandLogit(ExpandContext &c) { // log(x / (1 - x))
  ValueId x = c.operands[0];
  return {c.b.create("log", {c.b.div(x, c.b.shift(c.b.neg(x), 1))})};
}
ValueList expandSoftplusInverse(ExpandContext &c) { // x + log(1 - exp(-x))
  ValueId x = c.operands[0], rest = c.b.neg(c.b.create("expm1", {c.b.neg(x)}));
  return {c.b.add(x, c.b.create("log", {rest}))};
}

llvm::Expected<TypeList> inferIs(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  return TypeList{c.operand(0).with(DType::Bool)};
}

OpDef step(const char *name, const char *doc) { // piecewise constant
  OpDef row = unary(name, doc, nullptr, -2, 2, nullptr);
  row.differentiable = Differentiable::ZeroGradient;
  return row;
}

OpDef is(const char *name, const char *doc) {
  OpDef row = step(name, doc);
  row.infer = inferIs;
  row.inPlace.clear();
  return row;
}

} // namespace

void registerMathOps(OpRegistry &r) {
  r.add(withInverse(unary("log1p", "log(1 + x), exact near zero.", vjpLog1p, -0.5, 2),
                    inverseBy<kExpm1>));
  r.add(withInverse(unary("expm1", "exp(x) - 1, exact near zero.", vjpExpm1), inverseBy<kLog1p>));
  r.add(unary("tan", "The tangent of radians.", vjpTan, -1, 1));
  r.add(withInverse(unary("asin", "The angle in radians whose sine is x.", vjpAsin, -0.8, 0.8),
                    inverseBy<kSin>));
  r.add(withInverse(unary("acos", "The angle in radians whose cosine is x.", vjpAcos, -0.8, 0.8),
                    inverseBy<kCos>));
  r.add(withInverse(unary("atan", "The angle in radians whose tangent is x.", vjpAtan),
                    inverseBy<kTan>));
  r.add(withInverse(unary("sinh", "The hyperbolic sine.", vjpSinh), inverseBy<kAsinh>));
  r.add(withSign(unary("cosh", "The hyperbolic cosine.", vjpCosh), signPositive));
  r.add(withInverse(unary("asinh", "The inverse of the hyperbolic sine.", vjpAsinh),
                    inverseBy<kSinh>));
  r.add(withInverse(
      unary("acosh", "The inverse of the hyperbolic cosine, from x = 1 on.", vjpAcosh, 1.3, 3),
      inverseBy<kCosh>));
  r.add(withInverse(unary("atanh", "The inverse of the hyperbolic tangent.", vjpAtanh, -0.8, 0.8),
                    inverseBy<kTanh>));
  OpDef logit = withInverse(
      unary("logit", "log(x / (1 - x)): the inverse of the sigmoid.", nullptr, 0.1, 0.9),
      inverseBy<kSigmoid>);
  logit.expand = expandLogit;
  r.add(std::move(logit));
  OpDef softplusInverse = withInverse(
      unary("softplus_inverse", "log(exp(x) - 1): the inverse of softplus.", nullptr, 0.1, 3),
      inverseBy<kSoftplus>);
  softplusInverse.expand = expandSoftplusInverse;
  r.add(std::move(softplusInverse));

  r.add(step("floor", "The largest integer that is not above the operand."));
  r.add(step("ceil", "The smallest integer that is not below the operand."));
  r.add(step("round", "The nearest integer; a tie goes to the even one."));
  r.add(is("is_nan", "Whether the operand is NaN."));
  r.add(is("is_positive", "Whether the operand is above zero, or NaN."));
  OpDef infinite = with(is("is_inf", "Whether the operand is infinite."),
                        {{"positive", AttrKind::Bool, true, "whether infinity counts"},
                         {"negative", AttrKind::Bool, true, "whether minus infinity counts"}});
  infinite.examples.push_back("is_inf(f64[3]) {positive = false}");
  r.add(std::move(infinite));

  OpDef mod = with(
      binary("mod",
             "The remainder of a division whose quotient is rounded down; it has the divisor's "
             "sign. Division by zero gives zero for integers and NaN for floats.",
             vjpMod),
      {{"fmod", AttrKind::Bool, false, "whether the quotient is rounded towards zero: C's fmod"}});
  mod.inPlace = overEither();
  mod.examples.push_back("mod(f64[2, 3], f64[3]) {fmod = true}");
  mod.examples.push_back("mod(i64[2, 3], i64[3])");
  r.add(std::move(mod));
}

} // namespace isthmus
