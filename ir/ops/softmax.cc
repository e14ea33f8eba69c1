// Softmax, its logarithm, and the loss made of it.

#include "ir/ops/families.h"

namespace isthmus {
namespace {

// Losses of 16-bit values are f32.
DType lossType(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

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

// The labels' dims: those of x without the class axis.
llvm::Expected<Dims> expectLabels(const InferContext &c, const Type &x, size_t labels) {
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  if (llvm::Error e = c.expectInteger(labels))
    return e;
  Dims dims = x.dims;
  dims.erase(dims.begin() + *axis);
  if (c.operand(labels).dims != dims)
    return c.error("expects labels of the sizes of '{0}' without axis {1}, got '{2}'", x.str(),
                   *axis, c.operand(labels).str());
  return dims;
}

llvm::Expected<TypeList> inferCrossEntropy(const InferContext &c) {
  const Type &x = c.operand(0);
  if (llvm::Error e = c.expectFloat(0))
    return e;
  auto dims = expectLabels(c, x, 1);
  if (!dims)
    return dims.takeError();
  return TypeList{Type(lossType(x.dtype), {}), Type(lossType(x.dtype), *dims)};
}

llvm::Expected<TypeList> inferCrossEntropyGrad(const InferContext &c) {
  const Type &x = c.operand(1);
  if (llvm::Error e = c.expectFloat(1))
    return e;
  auto dims = expectLabels(c, x, 2);
  if (!dims)
    return dims.takeError();
  for (auto [i, want] :
       {std::pair(0, Type(lossType(x.dtype), {})), std::pair(3, Type(lossType(x.dtype), *dims))})
    if (c.operand(i) != want)
      return c.error("expects '{0}' of type '{1}', got '{2}'", c.op.operandNames[i], want.str(),
                     c.operand(i).str());
  return TypeList{x};
}

// --- Gradients

ValueList vjpSoftmax(VjpContext &c) {
  return {c.b.create("softmax_grad", {c.grad(0), c.result(0)}, c.attrs)};
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

// The class probabilities exp(x - lse), in the loss's type.
struct Classes {
  Builder &b;
  Type x;
  int64_t axis;

  Classes(Builder &b, const Type &type, int64_t axis)
      : b(b), x(type.with(lossType(type.dtype))), axis(axis < 0 ? axis + type.rank() : axis) {}

  // A value of the labels' shape, to broadcast against x.
  ValueId spread(ValueId v) const {
    Dims dims = x.dims;
    dims[axis] = 1;
    return b.reshape(v, dims);
  }
  ValueId probabilities(ValueId logits, ValueId lse) const {
    return b.create("exp", {b.sub(b.cast(logits, x.dtype), spread(lse))});
  }
};

ValueList vjpCrossEntropy(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(2);
  if (!c.wants(0))
    return out;
  const Type &x = c.type(c.operand(0));
  if (c.hasGrad(0))
    out[0] = b.create("cross_entropy_grad", {c.grad(0), c.operand(0), c.operand(1), c.result(1)},
                      c.attrs);
  if (c.hasGrad(1)) { // d lse / dx is softmax(x)
    Classes classes(b, x, c.attrs.getInt("axis"));
    ValueId more =
        b.mul(classes.probabilities(c.operand(0), c.result(1)), classes.spread(c.grad(1)));
    more = b.cast(more, x.dtype);
    out[0] = out[0] ? b.add(out[0], more) : more;
  }
  return out;
}

// dx = (p - onehot(labels)) g / count, with p = exp(x - lse). It is linear in g, so d dx / dg is
// the row itself at g = 1, and no one-hot tensor is built.
ValueList vjpCrossEntropyGrad(VjpContext &c) {
  Builder &b = c.b;
  ValueId g = c.operand(0), x = c.operand(1), labels = c.operand(2), lse = c.operand(3),
          up = c.grad(0);
  const Type &loss = c.type(g);
  Classes classes(b, c.type(x), c.attrs.getInt("axis"));
  ValueId upWide = b.cast(up, loss.dtype);
  ValueList out(4);
  if (c.wants(0)) {
    ValueId one = b.full(loss, 1);
    ValueId slope =
        b.cast(b.create("cross_entropy_grad", {one, x, labels, lse}, c.attrs), loss.dtype);
    out[0] = b.sum(b.mul(upWide, slope), {}, /*keepDims=*/false);
  }
  if (!c.wants(1) && !c.wants(3))
    return out;
  ValueId each = b.scale(g, 1 / double(c.type(labels).elements()));
  ValueId inner = b.mul(b.mul(upWide, classes.probabilities(x, lse)), each);
  if (c.wants(1))
    out[1] = b.cast(inner, c.type(x).dtype);
  if (c.wants(3)) {
    ValueId sum = b.sum(inner, {classes.axis}, /*keepDims=*/false);
    out[3] = b.neg(sum);
  }
  return out;
}

std::optional<int64_t> labelBound(const OpCall &c, size_t operand) {
  size_t x = c.operands.size() == 2 ? 0 : 1; // cross_entropy, cross_entropy_grad
  if (operand != x + 1)
    return std::nullopt;
  int64_t axis = c.attrs->getInt("axis");
  const Type &t = c.operands[x];
  return t.dims[axis < 0 ? axis + t.rank() : axis];
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
  r.attrs = {{"axis", AttrKind::Int, int64_t(-1), "the axis of the classes"}};
  r.infer = r.operands == "x" ? inferSoftmax : inferSoftmaxGrad;
  r.cost = costExponentials;
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

  const std::vector<AttrDef> axis = {
      {"axis", AttrKind::Int, int64_t(1), "the axis of the classes"}};
  r.add({{.name = "cross_entropy",
          .doc = "The mean over all labels of -log_softmax(x) at the label, and for each label "
                 "log(sum(exp(x))). A "
                 "label that is no class makes the loss NaN.",
          .operands = "x labels",
          .results = "loss lse",
          .attrs = axis,
          .traits = kNotACheckpoint,
          .infer = inferCrossEntropy,
          .vjp = vjpCrossEntropy,
          .cost = costExponentials,
          .indexBound = labelBound,
          .examples = {"cross_entropy(f64[4, 3], i64[4])",
                       "cross_entropy(f64[2, 3, 2, 2], i64[2, 2, 2])",
                       "cross_entropy(f64[2, 4, 3], i32[2, 4]) {axis = -1}",
                       "cross_entropy(f64[5], i64[]) {axis = 0}"}},
         {.name = "cross_entropy_grad",
          .doc = "The gradient of cross_entropy for x: (exp(x - lse) - [class is the label]) g / "
                 "number of labels.",
          .operands = "g x labels lse",
          .results = "dx",
          .attrs = axis,
          .traits = kNotACheckpoint,
          .infer = inferCrossEntropyGrad,
          .vjp = vjpCrossEntropyGrad,
          .cost = costExponentials,
          .inPlace = {{0, 1}},
          .indexBound = labelBound,
          .examples = {
              "cross_entropy_grad(f64[], f64[4, 3], i64[4], f64[4])",
              "cross_entropy_grad(f64[], f64[2, 3, 2, 2], i64[2, 2, 2], f64[2, 2, 2])",
              "cross_entropy_grad(f64[], f64[2, 4, 3], i32[2, 4], f64[2, 4]) {axis = -1}"}}});
}

} // namespace isthmus
