// Reductions over some of the axes.

#include "ir/ops/families.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// The type of a reduction; sizes of the axes in `axes` become one, or go.
llvm::Expected<Type> reducedType(const InferContext &c, size_t operand) {
  const Type &x = c.operand(operand);
  auto axes = c.axes(c.attrs.getInts("axes"), x.rank());
  if (!axes)
    return axes.takeError();
  Type to(x.dtype, {});
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!llvm::is_contained(*axes, i))
      to.dims.push_back(x.dims[i]);
    else if (c.attrs.getBool("keepdims"))
      to.dims.push_back(1);
  return to;
}

llvm::Expected<TypeList> inferSum(const InferContext &c) {
  if (c.operand(0).dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'; cast it first", c.operand(0).str());
  auto to = reducedType(c, 0);
  if (!to)
    return to.takeError();
  return TypeList{*to};
}

llvm::Expected<TypeList> inferMean(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  return inferSum(c);
}

llvm::Expected<TypeList> inferMax(const InferContext &c) {
  auto to = inferSum(c);
  if (!to)
    return to.takeError();
  if (c.operand(0).elements() == 0 && to->front().elements() > 0)
    return c.error("expects at least one element to take the largest of, got '{0}'",
                   c.operand(0).str());
  return to;
}

llvm::Expected<TypeList> inferMaxGrad(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(1))
    return e;
  auto y = reducedType(c, 1);
  if (!y)
    return y.takeError();
  for (size_t i : {0, 2})
    if (c.operand(i) != *y)
      return c.error("expects '{0}' of the type of the reduction, '{1}', got '{2}'",
                     c.op.operandNames[i], y->str(), c.operand(i).str());
  return TypeList{c.operand(1)};
}

// The dimensions of `x` after a reduction that keeps them.
Dims keptDims(const Attrs &attrs, const Type &x) {
  const Ints &axes = attrs.getInts("axes");
  Dims dims = x.dims;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (axes.empty() || llvm::is_contained(axes, i) || llvm::is_contained(axes, i - x.rank()))
      dims[i] = 1;
  return dims;
}

// The gradient of a sum: every summand's is that of the sum.
ValueId spreadOver(VjpContext &c, ValueId g) {
  const Type &x = c.type(c.operand(0));
  return c.b.broadcastTo(c.b.reshape(g, keptDims(c.attrs, x)), x.dims);
}

ValueList vjpSum(VjpContext &c) { return {spreadOver(c, c.grad(0))}; }

ValueList vjpMean(VjpContext &c) { // scaled while it is small
  int64_t all = c.type(c.operand(0)).elements(), kept = c.type(c.result(0)).elements();
  if (all == 0)
    return {c.b.zeros(c.type(c.operand(0)))};
  return {spreadOver(c, c.b.scale(c.grad(0), double(kept) / double(all)))};
}

ValueList vjpMax(VjpContext &c) {
  return {c.b.create("max_grad", {c.grad(0), c.operand(0), c.result(0)}, c.attrs)};
}

// Linear in g: the transpose takes the element at the maximum, which is a sum under the mask that
// max_grad makes of ones. Piecewise constant in x and y.
ValueList vjpMaxGrad(VjpContext &c) {
  ValueList out(3);
  if (!c.wants(0))
    return out;
  const Type &g = c.type(c.operand(0)), &x = c.type(c.operand(1));
  ValueId ones = c.b.full(g, 1);
  ValueId mask = c.b.create("max_grad", {ones, c.operand(1), c.operand(2)}, c.attrs);
  Ints axes;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (const Ints &given = c.attrs.getInts("axes");
        given.empty() || llvm::is_contained(given, i) || llvm::is_contained(given, i - x.rank()))
      axes.push_back(i);
  out[0] = c.b.sum(c.b.mul(c.grad(0), mask), axes, c.attrs.getBool("keepdims"));
  return out;
}

Cost costReduce(const OpCall &c) {
  return {double(c.operands[0].elements()), double(c.operands[0].bytes() + c.results[0].bytes())};
}

std::vector<AttrDef> axesAttrs() {
  return {{"axes", AttrKind::IntList, Ints(),
           "the axes to reduce, negative ones counting from the end; all if empty"},
          {"keepdims", AttrKind::Bool, false, "whether the reduced axes stay, with size one"}};
}

OpDef reduction(const char *name, const char *doc,
                llvm::Expected<TypeList> (*infer)(const InferContext &),
                ValueList (*vjp)(VjpContext &)) {
  OpDef row;
  row.name = name;
  row.doc = doc;
  row.operands = "x";
  row.results = "y";
  row.attrs = axesAttrs();
  row.infer = infer;
  row.vjp = vjp;
  row.cost = costReduce;
  for (const char *rest :
       {"(f64[2, 3])", "(f64[2, 3]) {axes = [0]}", "(f64[2, 3]) {axes = [-1], keepdims = true}",
        "(f64[2, 3, 4]) {axes = [0, 2]}", "(f64[2, 3, 4]) {axes = [1], keepdims = true}", "(f64[])",
        "(f64[2, 3, 2, 2]) {axes = [1, -1]}", "(f64[3, 40]) {axes = [1]}",
        "(f64[1, 4]) {axes = [0], keepdims = true}"})
    row.examples.push_back(row.name + rest);
  return row;
}

} // namespace

void registerReduceOps(OpRegistry &r) {
  OpDef sum = reduction("sum", "The sum over the axes.", inferSum, vjpSum);
  sum.examples.push_back("sum(f64[0, 2]) {axes = [0]}");
  sum.examples.push_back("sum(i64[2, 3]) {axes = [1]}");
  r.add(std::move(sum));
  r.add(reduction("mean", "The mean over the axes.", inferMean, vjpMean));
  r.add(reduction("max", "The largest element over the axes; NaN if there is one.", inferMax,
                  vjpMax));

  OpDef grad;
  grad.name = "max_grad";
  grad.doc = "The gradient of max: g at the first of the largest elements, zero elsewhere.";
  grad.operands = "g x y";
  grad.results = "dx";
  grad.attrs = axesAttrs();
  grad.infer = inferMaxGrad;
  grad.vjp = vjpMaxGrad;
  grad.inPlace = {{0, 1}};
  grad.examples = {"max_grad(f64[], f64[2, 3], f64[])",
                   "max_grad(f64[3], f64[2, 3], f64[3]) {axes = [0]}",
                   "max_grad(f64[2, 1], f64[2, 3], f64[2, 1]) {axes = [-1], keepdims = true}",
                   "max_grad(f64[3], f64[2, 3, 4], f64[3]) {axes = [0, 2]}"};
  r.add(std::move(grad));
}

} // namespace isthmus
