// Losses over classes. Labels are integers. Labels listed in `ignore` do not count; any other label
// that is no class makes the loss NaN. Losses of 16-bit values are f32.
//
// Class weights are no operand: with `reduction = none`, a gather and a product apply them to a
// tensor of the labels' size, which is small compared with x.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

DType lossType(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

int64_t axisOf(const Attrs &attrs, int64_t rank) {
  return axisFromFront(attrs.getInt("axis"), rank);
}

// --- Shape rules

llvm::Error expectReduction(const InferContext &c) {
  static constexpr llvm::StringRef known[] = {"mean", "sum", "none"};
  std::string reduction = c.attrs.getString("reduction");
  if (!llvm::is_contained(known, reduction))
    return c.error("expects the reduction mean, sum or none, got '{0}'", reduction);
  for (int64_t label : c.attrs.getInts("ignore"))
    if (label > int64_t(1) << 53 || label < -(int64_t(1) << 53)) // gradients compare labels as f64
      return c.error("expects labels to ignore of no more than 2^53, got {0}", label);
  return llvm::Error::success();
}

// The labels' dims: those of x without the class axis.
llvm::Expected<Dims> expectLabels(const InferContext &c, const Type &x, size_t labels) {
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  if (llvm::Error e = c.expectInteger(labels))
    return e;
  if (llvm::Error e = expectReduction(c))
    return e;
  Dims dims = x.dims;
  dims.erase(dims.begin() + *axis);
  if (c.operand(labels).dims != dims)
    return c.error("expects labels of the sizes of '{0}' without axis {1}, got '{2}'", x.str(),
                   *axis, c.operand(labels).str());
  if (x.dims[*axis] == 0 && c.operand(labels).elements() > 0)
    return c.error("expects a class at least, since there are labels, got none: '{0}'", x.str());
  return dims;
}

// The type of the loss of x, whose labels have these dims.
Type lossOf(const InferContext &c, const Type &x, const Dims &labels) {
  return Type(lossType(x.dtype), c.attrs.getString("reduction") == "none" ? labels : Dims());
}

llvm::Error expectType(const InferContext &c, size_t i, const Type &want) {
  if (c.operand(i) == want)
    return llvm::Error::success();
  return c.error("expects '{0}' of type '{1}', got '{2}'", c.op.operandNames[i], want.str(),
                 c.operand(i).str());
}

llvm::Expected<TypeList> inferNll(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  auto dims = expectLabels(c, c.operand(0), 1);
  if (!dims)
    return dims.takeError();
  return TypeList{lossOf(c, c.operand(0), *dims)};
}

llvm::Expected<TypeList> inferNllGrad(const InferContext &c) {
  auto type = parseDType(c.attrs.getString("type"));
  if (!type || !isFloat(*type))
    return c.error("expects a floating-point type such as f32, got '{0}'",
                   c.attrs.getString("type"));
  if (c.attrs.getInt("classes") < 0)
    return c.error("expects a number of classes of 0 or more, got {0}", c.attrs.getInt("classes"));
  int64_t rank = c.operand(1).rank() + 1;
  auto axis = c.axis(c.attrs.getInt("axis"), rank);
  if (!axis)
    return axis.takeError();
  Type x(*type, c.operand(1).dims);
  x.dims.insert(x.dims.begin() + *axis, c.attrs.getInt("classes"));
  auto dims = expectLabels(c, x, 1);
  if (!dims)
    return dims.takeError();
  if (llvm::Error e = expectType(c, 0, lossOf(c, x, *dims)))
    return e;
  return TypeList{x};
}

llvm::Expected<TypeList> inferCrossEntropy(const InferContext &c) {
  const Type &x = c.operand(0);
  if (llvm::Error e = c.expectFloat(0))
    return e;
  auto dims = expectLabels(c, x, 1);
  if (!dims)
    return dims.takeError();
  return TypeList{lossOf(c, x, *dims), Type(lossType(x.dtype), *dims)};
}

llvm::Expected<TypeList> inferCrossEntropyGrad(const InferContext &c) {
  const Type &x = c.operand(1);
  if (llvm::Error e = c.expectFloat(1))
    return e;
  auto dims = expectLabels(c, x, 2);
  if (!dims)
    return dims.takeError();
  if (llvm::Error e = expectType(c, 0, lossOf(c, x, *dims)))
    return e;
  if (llvm::Error e = expectType(c, 3, Type(lossType(x.dtype), *dims)))
    return e;
  return TypeList{x};
}

// --- Gradients

// A mask of the labels that count; none if all count.
ValueId counted(Builder &b, ValueId labels, const Attrs &attrs) {
  ValueId all;
  for (int64_t ignored : Ints(attrs.getInts("ignore"))) {
    ValueId number = b.full(Type(b.type(labels).dtype, {}), double(ignored));
    ValueId other = b.create("not", {b.create("equal", {labels, number})});
    all = all ? b.create("and", {all, other}) : other;
  }
  return all;
}

// The number of labels that count, as a divisor: at least one.
ValueId countOf(Builder &b, ValueId counted, DType type) {
  ValueId count = b.sum(b.cast(counted, type), {}, /*keepDims=*/false);
  return b.create("maximum", {count, b.full(Type(type, {}), 1)});
}

// nll and nll_grad are linear, and each is the transpose of the other.
ValueList vjpNll(VjpContext &c) {
  if (!c.wants(0))
    return ValueList(2);
  const Type &x = c.type(c.operand(0));
  Attrs attrs = c.attrs;
  attrs.set("classes", x.dims[axisOf(c.attrs, x.rank())]);
  attrs.set("type", dtypeName(x.dtype).str());
  return {c.b.create("nll_grad", {c.grad(0), c.operand(1)}, attrs), ValueId()};
}
ValueList vjpNllGrad(VjpContext &c) {
  if (!c.wants(0))
    return ValueList(2);
  Attrs attrs;
  for (const char *name : {"axis", "ignore", "reduction"})
    attrs.set(name, *c.attrs.find(name));
  // The mean over no labels is NaN, but nll_grad is then zero, and so must be its transpose.
  bool mayBeNone = attrs.getString("reduction") == "mean" && !attrs.getInts("ignore").empty();
  if (mayBeNone)
    attrs.set("reduction", std::string("sum"));
  ValueId g = c.b.create("nll", {c.grad(0), c.operand(1)}, attrs);
  if (mayBeNone)
    g = c.b.div(g, countOf(c.b, counted(c.b, c.operand(1), c.attrs), c.b.type(g).dtype));
  return {g, ValueId()};
}

// The class probabilities exp(x - lse), in the loss's type.
struct Classes {
  Builder &b;
  Type x;
  int64_t axis;

  Classes(Builder &b, const Type &type, const Attrs &attrs)
      : b(b), x(type.with(lossType(type.dtype))), axis(axisOf(attrs, type.rank())) {}

  // Reshapes a value of the labels' shape, to broadcast against x.
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
  const Type x = c.type(c.operand(0));
  if (c.hasGrad(0))
    out[0] = b.create("cross_entropy_grad", {c.grad(0), c.operand(0), c.operand(1), c.result(1)},
                      c.attrs);
  if (c.hasGrad(1)) { // d lse / dx is softmax(x)
    Classes classes(b, x, c.attrs);
    ValueId more =
        b.mul(classes.probabilities(c.operand(0), c.result(1)), classes.spread(c.grad(1)));
    more = b.cast(more, x.dtype);
    out[0] = out[0] ? b.add(out[0], more) : more;
  }
  return out;
}

// The gradient of each label's own loss, if `g` is the gradient of the reduced loss.
ValueId eachLabel(Builder &b, ValueId g, ValueId labels, const Attrs &attrs) {
  std::string reduction = attrs.getString("reduction");
  const Type each(b.type(g).dtype, b.type(labels).dims);
  ValueId counts = counted(b, labels, attrs);
  if (reduction == "mean")
    g = counts ? b.div(g, countOf(b, counts, each.dtype)) : b.scale(g, 1 / double(each.elements()));
  if (counts)
    return b.create("where", {counts, g, b.full(Type(each.dtype, {}), 0)});
  return b.broadcastTo(g, each.dims);
}

ValueList expandCrossEntropyGrad(ExpandContext &c) {
  Builder &b = c.b;
  ValueId g = c.operands[0], x = c.operands[1], labels = c.operands[2], lse = c.operands[3];
  const Type type = b.type(x);
  Classes classes(b, type, c.attrs);
  ValueId each = classes.spread(eachLabel(b, g, labels, c.attrs));
  Attrs attrs = c.attrs;
  attrs.set("classes", type.dims[classes.axis]);
  attrs.set("type", dtypeName(classes.x.dtype).str());
  ValueId atLabels = b.create("nll_grad", {g, labels}, attrs);
  ValueId dx = b.add(b.mul(classes.probabilities(x, lse), each), atLabels);
  return {b.cast(dx, type.dtype)};
}

// --- Chunks: each label has its own loss

// Axes of x, but that of the classes, and of operands and results of the labels' dims. Losses are
// cut where they are not reduced.
Factors factorsOfLabels(const OpCall &c, const Type &x) {
  Factors f = wholeFactors(c);
  Factors::Axes ofX(x.dims.size()), ofLabels;
  const int64_t axis = axisOf(*c.attrs, x.rank());
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != axis) {
      ofX[i].factor = uint32_t(i);
      ofLabels.push_back(ofX[i]);
    }
  auto name = [&](const Type &t, Factors::Axes &axes) {
    axes = t.dims == x.dims                 ? ofX
           : axes.size() == ofLabels.size() ? ofLabels
                                            : Factors::Axes(axes.size());
  };
  for (size_t i = 0; i < c.operands.size(); ++i)
    name(c.operands[i], f.operands[i]);
  for (size_t i = 0; i < c.results.size(); ++i)
    name(c.results[i], f.results[i]);
  return f;
}
bool isReduced(const OpCall &c) { return c.attrs->getString("reduction") != "none"; }
Factors factorsOfLoss(const OpCall &c) {
  return isReduced(c) ? wholeFactors(c) : factorsOfLabels(c, c.operands[0]);
}
Factors factorsOfCrossEntropyGrad(const OpCall &c) {
  return isReduced(c) ? wholeFactors(c) : factorsOfLabels(c, c.operands[1]);
}
Factors factorsOfNllGrad(const OpCall &c) {
  return isReduced(c) ? wholeFactors(c) : factorsOfLabels(c, c.results[0]);
}

Attrs withoutReduction(const Attrs &attrs) {
  Attrs none = attrs;
  none.set("reduction", std::string("none"));
  return none;
}

// The reduced loss of the labels' losses; results after the first stay.
ValueList unreducedLoss(ExpandContext &c, const char *op) {
  Builder &b = c.b;
  const std::string reduction = c.attrs.getString("reduction");
  if (reduction == "none")
    return {};
  const NodeId each = b.createNode(op, c.operands, withoutReduction(c.attrs));
  ValueList out;
  for (uint32_t r = 0; r < b.graph().node(each).numResults; ++r)
    out.push_back(b.graph().node(each).result(r));
  const DType type = b.type(out[0]).dtype;
  const ValueId labels = c.operands[1], counts = counted(b, labels, c.attrs);
  const double all = double(b.type(labels).elements());
  out[0] = b.sum(out[0], {}, /*keepDims=*/false);
  if (reduction == "mean")
    out[0] = b.div(out[0], counts ? b.sum(b.cast(counts, type), {}, /*keepDims=*/false)
                                  : b.full(Type(type, {}), all));
  return out;
}
ValueList unreducedCrossEntropy(ExpandContext &c) { return unreducedLoss(c, "cross_entropy"); }
ValueList unreducedNll(ExpandContext &c) { return unreducedLoss(c, "nll"); }

// The gradient from those of the labels' losses, g being operand 0.
ValueList unreducedGrad(ExpandContext &c, const char *op, ValueId labels) {
  Builder &b = c.b;
  const std::string reduction = c.attrs.getString("reduction");
  if (reduction == "none")
    return {};
  ValueList operands = c.operands;
  const DType type = b.type(operands[0]).dtype;
  if (reduction == "mean") {
    const ValueId counts = counted(b, labels, c.attrs);
    operands[0] =
        b.div(operands[0], counts ? countOf(b, counts, type)
                                  : b.full(Type(type, {}), double(b.type(labels).elements())));
  }
  operands[0] = b.broadcastTo(operands[0], b.type(labels).dims);
  return {b.create(op, operands, withoutReduction(c.attrs))};
}
ValueList unreducedCrossEntropyGrad(ExpandContext &c) {
  return unreducedGrad(c, "cross_entropy_grad", c.operands[2]);
}
ValueList unreducedNllGrad(ExpandContext &c) { return unreducedGrad(c, "nll_grad", c.operands[1]); }

// --- Labels

std::optional<int64_t> labelBound(const OpCall &c, size_t operand) {
  bool isNllGrad = c.op->attr("classes"), isGrad = !isNllGrad && c.operands.size() == 4;
  if (operand != (isGrad ? 2 : 1))
    return std::nullopt;
  if (isNllGrad)
    return c.attrs->getInt("classes");
  const Type &x = c.operands[isGrad ? 1 : 0];
  return x.dims[axisOf(*c.attrs, x.rank())];
}

bool takesLabel(const OpCall &c, size_t operand, int64_t label) {
  return (label >= 0 && label < *labelBound(c, operand)) ||
         llvm::is_contained(c.attrs->getInts("ignore"), label);
}

// --- Cost

Cost costOfBytes(const OpCall &c) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  for (const Type &t : c.results)
    cost.bytes += double(t.bytes());
  return cost;
}
Cost costExponentials(const OpCall &c) {
  Cost cost = costOfBytes(c);
  for (const Type &t : c.operands)
    cost.flops = std::max(cost.flops, 10 * double(t.elements()));
  return cost;
}
Cost costNll(const OpCall &c) { // one element of x for each label
  Cost cost;
  cost.flops = 2 * double(c.operands[1].elements());
  cost.bytes =
      double(c.operands[1].bytes()) + 8 * double(c.operands[1].elements()) + c.results[0].bytes();
  return cost;
}
Cost costNllGrad(const OpCall &c) {
  Cost cost = costOfBytes(c);
  cost.flops = double(c.operands[1].elements());
  return cost;
}

// --- Rows

const AttrDef kAxis = {"axis", AttrKind::Int, int64_t(1), "the axis of the classes"};
const AttrDef kIgnore = {"ignore", AttrKind::IntList, Ints(), "labels that do not count"};
const AttrDef kReduction = {"reduction", AttrKind::String, std::string("mean"),
                            "mean over the labels that count, sum, or none: one loss for each "
                            "label, zero for those that do not count"};

} // namespace

void registerLossOps(OpRegistry &r) {
  r.add(
      {{.name = "cross_entropy",
        .doc = "-log_softmax(x) at each label, reduced, and for each label log(sum(exp(x))). A "
               "label that is no class makes the loss NaN.",
        .operands = "x labels",
        .results = "loss lse",
        .attrs = {kAxis, kIgnore, kReduction},
        .traits = kNotACheckpoint,
        .infer = inferCrossEntropy,
        .vjp = vjpCrossEntropy,
        .cost = costExponentials,
        .factors = factorsOfLoss,
        .unreduced = unreducedCrossEntropy,
        .indexBound = labelBound,
        .takesIndex = takesLabel,
        .examples = {"cross_entropy(f64[4, 3], i64[4])",
                     "cross_entropy(f64[2, 3, 2, 2], i64[2, 2, 2])",
                     "cross_entropy(f64[2, 4, 3], i32[2, 4]) {axis = -1}",
                     "cross_entropy(f64[5], i64[]) {axis = 0}",
                     "cross_entropy(f64[6, 3], i64[6]) {ignore = [1]}",
                     "cross_entropy(f64[2, 3, 4], i32[2, 4]) {reduction = sum}",
                     "cross_entropy(f64[2, 3, 4], i64[2, 4]) {ignore = [0, 7], reduction = none}"}},
       {.name = "cross_entropy_grad",
        .doc = "The gradient of cross_entropy for x: (exp(x - lse) - [class is the label]) times "
               "the gradient of the label's loss.",
        .operands = "g x labels lse",
        .results = "dx",
        .attrs = {kAxis, kIgnore, kReduction},
        .traits = kNotACheckpoint,
        .infer = inferCrossEntropyGrad,
        .expand = expandCrossEntropyGrad,
        .cost = costExponentials,
        .inPlace = {{0, 1}},
        .factors = factorsOfCrossEntropyGrad,
        .unreduced = unreducedCrossEntropyGrad,
        .indexBound = labelBound,
        .takesIndex = takesLabel,
        .examples =
            {"cross_entropy_grad(f64[], f64[4, 3], i64[4], f64[4])",
             "cross_entropy_grad(f64[], f64[2, 3, 2, 2], i64[2, 2, 2], f64[2, 2, 2])",
             "cross_entropy_grad(f64[], f64[2, 4, 3], i32[2, 4], f64[2, 4]) {axis = -1}",
             "cross_entropy_grad(f64[], f64[6, 3], i64[6], f64[6]) {ignore = [1]}",
             "cross_entropy_grad(f64[], f64[2, 2], i64[2], f64[2]) {ignore = [0, 1]}",
             "cross_entropy_grad(f64[], f64[2, 3, 4], i32[2, 4], f64[2, 4]) {reduction = sum}",
             "cross_entropy_grad(f64[2, 4], f64[2, 3, 4], i64[2, 4], f64[2, 4]) {ignore = [0, 7], "
             "reduction = none}"}},
       {.name = "nll",
        .doc = "The negative of x at each label, reduced. A label that is no class makes the loss "
               "NaN.",
        .operands = "x labels",
        .results = "loss",
        .attrs = {kAxis, kIgnore, kReduction},
        .traits = kNotACheckpoint,
        .infer = inferNll,
        .vjp = vjpNll,
        .cost = costNll,
        .factors = factorsOfLoss,
        .unreduced = unreducedNll,
        .indexBound = labelBound,
        .takesIndex = takesLabel,
        .examples = {"nll(f64[4, 3], i64[4])", "nll(f64[2, 4, 3], i32[2, 4]) {axis = -1}",
                     "nll(f64[6, 3, 2], i64[6, 2]) {ignore = [1]}",
                     "nll(f64[2, 3, 4], i32[2, 4]) {reduction = sum}",
                     "nll(f64[2, 3, 4], i64[2, 4]) {ignore = [0, 7], reduction = none}"}},
       {.name = "nll_grad",
        .doc = "The gradient of nll: minus the gradient of its loss at each label, zero elsewhere.",
        .operands = "g labels",
        .results = "dx",
        .attrs = {kAxis,
                  kIgnore,
                  kReduction,
                  {"classes", AttrKind::Int, {}, "the number of classes"},
                  {"type", AttrKind::String, std::string("f32"), "the element type of the result"}},
        .traits = kNotACheckpoint,
        .infer = inferNllGrad,
        .vjp = vjpNllGrad,
        .cost = costNllGrad,
        .factors = factorsOfNllGrad,
        .unreduced = unreducedNllGrad,
        .indexBound = labelBound,
        .takesIndex = takesLabel,
        .examples = {
            "nll_grad(f64[], i64[4]) {classes = 3, type = f64}",
            "nll_grad(f64[], i32[2, 4]) {axis = -1, classes = 3, type = f64}",
            "nll_grad(f64[], i64[6, 2]) {ignore = [1], classes = 3, type = f64}",
            "nll_grad(f64[], i64[2]) {ignore = [0, 1], classes = 2, type = f64}",
            "nll_grad(f64[], i64[2, 4]) {reduction = sum, classes = 3, type = f64}",
            "nll_grad(f64[2, 4], i64[2, 4]) {ignore = [0, 7], reduction = none, classes = 3, "
            "type = f64}"}}});
}

} // namespace isthmus
