// Softmax and its logarithm.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include "ir/rank.h"

namespace isthmus {
namespace {

// --- Shape rules

llvm::Expected<TypeList> inferSoftmax(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  auto axis = c.axis(c.attrs.getInt("axis"), c.operand(0).rank());
  if (!axis)
    return axis.takeError();
  return TypeList{c.operand(0)};
}

llvm::Expected<TypeList> inferSoftmaxGrad(const InferContext &c) {
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  return inferSoftmax(c);
}

// --- Gradients

ValueList vjpSoftmax(VjpContext &c) {
  // Where a whole slice of the result is zero (`zero_if_masked`), its gradient is zero too.
  return {c.b.create("softmax_grad", {c.grad(0), c.result(0)}, {{"axis", c.attrs.getInt("axis")}})};
}
ValueList vjpLogSoftmax(VjpContext &c) {
  return {c.b.create("log_softmax_grad", {c.grad(0), c.result(0)}, c.attrs)};
}

ValueList expandSoftmaxGrad(ExpandContext &c) { // y (g - sum(g y))
  ValueId g = c.operands[0], y = c.operands[1];
  ValueId dot = c.b.sum(c.b.mul(g, y), {c.attrs.getInt("axis")}, /*keepDims=*/true);
  return {c.b.mul(y, c.b.sub(g, dot))};
}
ValueList expandLogSoftmaxGrad(ExpandContext &c) { // g - exp(y) sum(g)
  ValueId g = c.operands[0], y = c.operands[1];
  ValueId total = c.b.sum(g, {c.attrs.getInt("axis")}, /*keepDims=*/true);
  return {c.b.sub(g, c.b.mul(c.b.create("exp", {y}), total))};
}

Cost costExponentials(const OpCall &c) {
  Cost cost;
  double most = 0;
  for (const Type &t : c.operands) {
    cost.bytes += double(t.bytes());
    most = std::max(most, double(t.elements()));
  }
  for (const Type &t : c.results)
    cost.bytes += double(t.bytes());
  cost.flops = 10 * most;
  return cost;
}

OpDef row(const char *name, const char *doc, const char *operands, const char *result) {
  OpDef r;
  r.name = name;
  r.doc = doc;
  r.operands = operands;
  r.results = result;
  r.attrs = {{"axis", AttrKind::Int, int64_t(-1), "the axis of the classes", AxisRole::Axis}};
  r.infer = r.operands == "x" ? inferSoftmax : inferSoftmaxGrad;
  r.cost = costExponentials;
  r.factors = offAxisFactors;
  std::string types = r.operands == "x" ? "f64[2, 3, 4]" : "f64[2, 3, 4], f64[2, 3, 4]";
  r.inPlace = {{0, 0}};
  if (r.operands != "x")
    r.inPlace.push_back({0, 1});
  r.examples = {r.name + "(" + types + ")", r.name + "(" + types + ") {axis = 1}",
                r.name + "(" + types + ") {axis = 0}"};
  return r;
}

} // namespace

void registerSoftmaxOps(OpRegistry &r) {
  OpDef softmax = row("softmax", "Exponentials along an axis, scaled to sum to one.", "x", "y");
  softmax.attrs.push_back({"zero_if_masked", AttrKind::Bool, false,
                           "whether a slice that is -inf throughout gives zeros, not NaN"});
  softmax.examples.push_back("softmax(f64[3, 4]) {zero_if_masked = true}");
  softmax.vjp = vjpSoftmax;
  r.add(std::move(softmax));
  OpDef softmaxGrad = row(
      "softmax_grad", "The gradient of softmax, from its result: y (g - sum(g y)).", "g y", "dx");
  softmaxGrad.expand = expandSoftmaxGrad;
  r.add(std::move(softmaxGrad));
  OpDef logSoftmax =
      row("log_softmax", "The logarithm of softmax: x - log(sum(exp(x))).", "x", "y");
  logSoftmax.vjp = vjpLogSoftmax;
  r.add(std::move(logSoftmax));
  OpDef logSoftmaxGrad =
      row("log_softmax_grad", "The gradient of log_softmax, from its result: g - exp(y) sum(g).",
          "g y", "dx");
  logSoftmaxGrad.expand = expandLogSoftmaxGrad;
  r.add(std::move(logSoftmaxGrad));
}

} // namespace isthmus
