// Activations that are not in elementwise.cc. Gradients read the result where it suffices: an
// operand without other readers, such as the result of a convolution, is then not kept.

#include "ir/ops/elementwise_rows.h"
#include "ir/value_facts.h"
#include <cmath>

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferElu(const InferContext &c) {
  double alpha = c.attrs.getFloat("alpha"), scale = c.attrs.getFloat("scale"),
         width = c.attrs.getFloat("width");
  // With these signs the result has the operand's sign, by which the gradient selects the branch.
  if (!(scale > 0) || width == 0 || !(alpha / width >= 0))
    return c.error("expects a scale above 0, and alpha and width of one sign, got {0}, {1} and {2}",
                   floatText(scale), floatText(alpha), floatText(width));
  return inferUnary(c);
}

llvm::Expected<TypeList> inferEluInverse(const InferContext &c) {
  if (c.attrs.getFloat("alpha") == 0)
    return c.error("expects an alpha other than 0, with which elu has no inverse");
  return inferElu(c);
}

llvm::Expected<TypeList> inferPrelu(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = expectOneDType(c, 0))
    return e;
  auto dims = broadcastDims(c);
  if (!dims)
    return dims.takeError();
  if (*dims != c.operand(0).dims)
    return c.error("expects a slope that broadcasts to '{0}', got '{1}'", c.operand(0).str(),
                   c.operand(1).str());
  return TypeList{c.operand(0)};
}

// --- Gradients

template <size_t from> ValueId gradOf(VjpContext &c, const char *row) {
  return c.b.create(row, {c.grad(0), from ? c.result(0) : c.operand(0)}, c.attrs);
}
ValueList vjpElu(VjpContext &c) { return {gradOf<1>(c, "elu_grad")}; }
ValueList vjpSoftsign(VjpContext &c) { return {gradOf<1>(c, "softsign_grad")}; }
ValueList vjpMish(VjpContext &c) { return {gradOf<0>(c, "mish_grad")}; }
ValueList vjpSwish(VjpContext &c) { return {gradOf<0>(c, "swish_grad")}; }
ValueList vjpHardSwish(VjpContext &c) { return {gradOf<0>(c, "hard_swish_grad")}; }

Attrs between(double min, double max) { return {{"min", min}, {"max", max}}; }

ValueList vjpHardSigmoid(VjpContext &c) { // linear where the result is within its bounds
  ValueId g = c.b.create("clamp_grad", {c.grad(0), c.result(0)}, between(0, 1));
  return {c.b.scale(g, c.attrs.getFloat("alpha"))};
}
ValueList vjpThresholdedRelu(VjpContext &c) {
  return {c.b.create("clamp_grad", {c.grad(0), c.operand(0)},
                     between(c.attrs.getFloat("alpha"), INFINITY))};
}
ValueList vjpShrink(VjpContext &c) { // 1 outside of [-lambda, lambda], 0 inside
  double edge = c.attrs.getFloat("lambda");
  ValueId inner = c.b.create("clamp_grad", {c.grad(0), c.operand(0)}, between(-edge, edge));
  return {c.b.sub(c.grad(0), inner)};
}
ValueList vjpPrelu(VjpContext &c) {
  Builder &b = c.b;
  ValueId x = c.operand(0), g = c.grad(0);
  ValueList out(2);
  if (c.wants(0)) {
    ValueId positive = b.create("greater", {x, b.zeros(Type(c.type(x).dtype, {}))});
    out[0] = b.create("where", {positive, g, b.mul(g, c.operand(1))});
  }
  if (c.wants(1))
    out[1] = reduced(c, 1, b.mul(g, b.create("clamp", {x}, between(-INFINITY, 0))));
  return out;
}

// --- Expansions, for second derivatives

ValueList expandEluGrad(ExpandContext &c) { // g (y + scale alpha) / width up to zero, else g scale
  Builder &b = c.b;
  ValueId g = c.operands[0], y = c.operands[1];
  double alpha = c.attrs.getFloat("alpha"), scale = c.attrs.getFloat("scale"),
         width = c.attrs.getFloat("width");
  ValueId bent = b.create("affine", {y}, {{"scale", 1 / width}, {"shift", scale * alpha / width}});
  ValueId isBent = b.create("less_equal", {y, b.zeros(Type(b.type(y).dtype, {}))});
  return {b.mul(g, b.create("where", {isBent, bent, b.full(Type(b.type(y).dtype, {}), scale)}))};
}
ValueList expandSoftsignGrad(ExpandContext &c) { // g (1 - |y|)^2
  ValueId left = c.b.shift(c.b.neg(c.b.create("abs", {c.operands[1]})), 1);
  return {c.b.mul(c.operands[0], c.b.create("square", {left}))};
}
ValueList expandMishGrad(ExpandContext &c) { // t + x (1 - t^2) s, t = tanh(softplus(x))
  Builder &b = c.b;
  ValueId x = c.operands[1], t = b.create("tanh", {b.create("softplus", {x})});
  ValueId slope = b.mul(b.shift(b.neg(b.create("square", {t})), 1), b.create("sigmoid", {x}));
  return {b.mul(c.operands[0], b.add(t, b.mul(x, slope)))};
}
ValueList expandSwishGrad(ExpandContext &c) { // s + alpha x s (1 - s), s = sigmoid(alpha x)
  Builder &b = c.b;
  double alpha = c.attrs.getFloat("alpha");
  ValueId x = b.scale(c.operands[1], alpha), s = b.create("sigmoid", {x});
  ValueId rest = b.mul(x, b.mul(s, b.shift(b.neg(s), 1)));
  return {b.mul(c.operands[0], b.add(s, rest))};
}
ValueList expandHardSwishGrad(ExpandContext &c) { // h + x h', h = hard_sigmoid(x)
  Builder &b = c.b;
  ValueId x = c.operands[1];
  ValueId h = b.create("hard_sigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  ValueId slope = b.create("clamp_grad", {b.full(b.type(x), 1.0 / 6), x}, between(-3, 3));
  return {b.mul(c.operands[0], b.add(h, b.mul(x, slope)))};
}

// --- Inverses, and a row that serves as one

ValueId inverseElu(InverseContext &c, size_t) {
  return c.attrs.getFloat("alpha") == 0 ? ValueId()
                                        : c.b.create("elu_inverse", {c.results[0]}, c.attrs);
}
ValueId inverseEluInverse(InverseContext &c, size_t) {
  return c.b.create("elu", {c.results[0]}, c.attrs);
}
// x / scale above zero, else width log(1 + x / (scale alpha))
ValueList expandEluInverse(ExpandContext &c) {
  Builder &b = c.b;
  ValueId x = c.operands[0];
  double alpha = c.attrs.getFloat("alpha"), scale = c.attrs.getFloat("scale"),
         width = c.attrs.getFloat("width");
  ValueId low = b.scale(b.create("clamp", {x}, between(-INFINITY, 0)), 1 / (scale * alpha));
  ValueId bent = b.scale(b.create("log1p", {low}), width);
  ValueId positive = b.create("greater", {x, b.zeros(Type(b.type(x).dtype, {}))});
  return {b.create("where", {positive, b.scale(x, 1 / scale), bent})};
}
// With slopes above zero the result has the operand's sign.
ValueId inversePrelu(InverseContext &c, size_t wanted) {
  if (wanted != 0)
    return ValueId();
  ValueId turned = c.b.create("reciprocal", {c.operands[1]});
  return c.b.create("prelu", {c.results[0], turned});
}
bool slopeIsPositive(const ValueFacts &facts, const Node &n, size_t) {
  return facts.isPositive(n.operands[1]);
}
ValueId inverseSoftsign(InverseContext &c, size_t) { // y / (1 - |y|)
  ValueId y = c.results[0];
  ValueId size = c.b.create("abs", {y});
  return c.b.div(y, c.b.create("affine", {size}, {{"scale", -1.0}, {"shift", 1.0}}));
}

} // namespace

void registerActivationOps(OpRegistry &r) {
  std::vector<AttrDef> bends = {
      {"alpha", AttrKind::Float, 1.0,
       "the result tends to -alpha for negative operands, before scaling"},
      {"scale", AttrKind::Float, 1.0, "the factor of the whole result"},
      {"width", AttrKind::Float, 1.0, "the divisor of negative operands"}};
  OpDef elu =
      with(unary("elu",
                 "scale x where x is positive, else scale alpha (exp(x / width) - 1). SELU is elu "
                 "with a scale, CELU is elu with width = alpha.",
                 vjpElu),
           bends, {"elu(f64[2, 3])", "elu(f64[2, 5]) {alpha = 1.5, scale = 2.0, width = 0.5}"});
  elu.infer = inferElu;
  r.add(withInverse(std::move(elu), inverseElu));
  OpDef eluInverse = with(
      unary("elu_inverse", "The inverse of elu with the same attributes; alpha must not be zero.",
            nullptr, -0.8, 2),
      bends,
      {"elu_inverse(f64[2, 3])", "elu_inverse(f64[2, 5]) {alpha = 1.5, scale = 2.0, width = 0.5}"});
  eluInverse.infer = inferEluInverse;
  eluInverse.expand = expandEluInverse;
  r.add(withInverse(std::move(eluInverse), inverseEluInverse));
  r.add(withInverse(unary("softsign", "x / (1 + |x|).", vjpSoftsign, -2, 2, nullptr),
                    inverseSoftsign));
  r.add(unary("mish", "x tanh(softplus(x)).", vjpMish));
  std::vector<AttrDef> alpha = {
      {"alpha", AttrKind::Float, 1.0, "the factor of x inside the sigmoid"}};
  r.add(with(unary("swish", "x sigmoid(alpha x).", vjpSwish), alpha,
             {"swish(f64[2, 3]) {alpha = 1.702}"}));
  OpDef hardSigmoid =
      with(unary("hard_sigmoid", "alpha x + beta, no less than 0 and no more than 1.",
                 vjpHardSigmoid, -4, 4, nullptr),
           {{"alpha", AttrKind::Float, 0.2, "the slope"},
            {"beta", AttrKind::Float, 0.5, "the value at zero"}},
           {"hard_sigmoid(f64[2, 5])", "hard_sigmoid(f64[2, 5]) {alpha = 0.25, beta = 0.4}"});
  hardSigmoid.traits |= kTellsResultBits; // the gradient tests for zeros and ones
  r.add(std::move(hardSigmoid));
  r.add(
      unary("hard_swish", "x hard_sigmoid(x), whose alpha is 1/6.", vjpHardSwish, -4, 4, nullptr));
  r.add(with(unary("thresholded_relu", "The operand where above alpha, else zero.",
                   vjpThresholdedRelu, -2, 2, nullptr),
             {{"alpha", AttrKind::Float, 1.0, "the threshold"}}, {"thresholded_relu(f64[2, 5])"}));
  r.add(with(
      unary("shrink",
            "x + bias where x is below -lambda, x - bias where it is above lambda, else "
            "zero.",
            vjpShrink, -2, 2, nullptr),
      {{"lambda", AttrKind::Float, 0.5, "the threshold: operands from -lambda to lambda give zero"},
       {"bias", AttrKind::Float, 0.0, "the shift of the other operands towards zero"}},
      {"shrink(f64[2, 5])", "shrink(f64[2, 5]) {lambda = 1.0, bias = 1.0}"}));
  r.add({{.name = "prelu",
          .doc = "x where positive, else slope x; the slope broadcasts to x.",
          .operands = "x slope",
          .results = "y",
          .traits = kElementwise,
          .infer = inferPrelu,
          .vjp = vjpPrelu,
          .inverse = inversePrelu,
          .inverseHolds = slopeIsPositive,
          .inPlace = overFirst(),
          .examples = {"prelu(f64[2, 3], f64[2, 3])", "prelu(f64[2, 3, 2], f64[3, 1])",
                       "prelu(f64[4], f64[])"}}});

  OpDef eluGrad = gradRow("elu_grad", "The gradient of elu, v being its result.", nullptr,
                          expandEluGrad, bends);
  eluGrad.infer = [](const InferContext &c) -> llvm::Expected<TypeList> {
    auto bends = inferElu(c);
    return bends ? inferGradPair(c) : std::move(bends);
  };
  eluGrad.examples.push_back(
      "elu_grad(f64[2, 5], f64[2, 5]) {alpha = 1.5, scale = 2.0, width = 0.5}");
  r.add(std::move(eluGrad));
  r.add(gradRow("softsign_grad", "g (1 - |v|)^2, v being softsign's result.", nullptr,
                expandSoftsignGrad));
  r.add(gradRow("mish_grad", "The gradient of mish at v.", nullptr, expandMishGrad));
  OpDef swishGrad =
      gradRow("swish_grad", "The gradient of swish at v.", nullptr, expandSwishGrad, alpha);
  swishGrad.examples = {"swish_grad(f64[2, 3], f64[2, 3]) {alpha = 1.702}"};
  r.add(std::move(swishGrad));
  OpDef hardSwishGrad =
      gradRow("hard_swish_grad", "The gradient of hard_swish at v.", nullptr, expandHardSwishGrad);
  hardSwishGrad.low = -4;
  hardSwishGrad.high = 4;
  r.add(std::move(hardSwishGrad));
}

} // namespace isthmus
