// Reductions over some of the axes.

#include "ir/factors.h"
#include "ir/ops/scan.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// The type of a reduction: the axes in `axes` get size one, or are removed.
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

// A reduction of one axis, which must have at least one element to point at.
llvm::Expected<TypeList> inferArg(const InferContext &c) {
  const Type &x = c.operand(0);
  if (x.dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'; cast it first", x.str());
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  Type to = x.with(DType::I64);
  if (c.attrs.getBool("keepdims"))
    to.dims[*axis] = 1;
  else
    to.dims.erase(to.dims.begin() + *axis);
  if (x.dims[*axis] == 0 && to.elements() > 0)
    return c.error("expects at least one element on axis {0} of '{1}'", *axis, x.str());
  return TypeList{to};
}

llvm::Expected<TypeList> inferExtremumGrad(const InferContext &c) {
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

bool isReduced(const Attrs &attrs, const Type &x, int64_t axis) {
  const Ints &axes = attrs.getInts("axes");
  return axes.empty() || llvm::is_contained(axes, axis) ||
         llvm::is_contained(axes, axis - x.rank());
}

// The dimensions of `x` after a reduction that keeps them.
Dims keptDims(const Attrs &attrs, const Type &x) {
  Dims dims = x.dims;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (isReduced(attrs, x, i))
      dims[i] = 1;
  return dims;
}

// The gradient of a sum: each summand has the gradient of the sum.
ValueId spreadOver(VjpContext &c, ValueId g) {
  const Type &x = c.type(c.operand(0));
  return c.b.broadcastTo(c.b.reshape(g, keptDims(c.attrs, x)), x.dims);
}

ValueList vjpSum(VjpContext &c) { return {spreadOver(c, c.grad(0))}; }

ValueList vjpMean(VjpContext &c) { // scaled before it is broadcast, while it is small
  int64_t all = c.type(c.operand(0)).elements(), kept = c.type(c.result(0)).elements();
  if (all == 0)
    return {c.b.zeros(c.type(c.operand(0)))};
  return {spreadOver(c, c.b.scale(c.grad(0), double(kept) / double(all)))};
}

ValueList vjpMax(VjpContext &c) {
  return {c.b.create("max_grad", {c.grad(0), c.operand(0), c.result(0)}, c.attrs)};
}
ValueList vjpMin(VjpContext &c) {
  return {c.b.create("min_grad", {c.grad(0), c.operand(0), c.result(0)}, c.attrs)};
}

// The row is linear in g. Its transpose takes the element at the extremum: the sum of the elements
// under the mask that the row makes from ones. The row is piecewise constant in x and y.
ValueList vjpExtremumGrad(VjpContext &c, const char *row) {
  ValueList out(3);
  if (!c.wants(0))
    return out;
  const Type &g = c.type(c.operand(0)), &x = c.type(c.operand(1));
  ValueId ones = c.b.full(g, 1);
  ValueId mask = c.b.create(row, {ones, c.operand(1), c.operand(2)}, c.attrs);
  Ints axes;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (isReduced(c.attrs, x, i))
      axes.push_back(i);
  out[0] = c.b.sum(c.b.mul(c.grad(0), mask), axes, c.attrs.getBool("keepdims"));
  return out;
}
ValueList vjpMaxGrad(VjpContext &c) { return vjpExtremumGrad(c, "max_grad"); }
ValueList vjpMinGrad(VjpContext &c) { return vjpExtremumGrad(c, "min_grad"); }

// The gradient of a factor is the product of all others: of those before it times those after it,
// in rows that hold all factors of one product. It is right where factors are zero, and so are its
// own derivatives.
ValueList vjpProd(VjpContext &c) {
  Builder &b = c.b;
  const Type x = c.type(c.operand(0));
  if (x.elements() == 0)
    return {b.zeros(x)};
  Ints perm, back(size_t(x.rank()));
  for (bool reduced : {false, true})
    for (int64_t i = 0; i < x.rank(); ++i)
      if (isReduced(c.attrs, x, i) == reduced) {
        back[i] = int64_t(perm.size());
        perm.push_back(i);
      }
  bool moves = !llvm::is_sorted(perm);
  int64_t outputs = c.type(c.result(0)).elements();
  ValueId factors = moves ? b.transpose(c.operand(0), perm) : c.operand(0);
  Dims moved = b.type(factors).dims;
  factors = b.reshape(factors, {outputs, x.elements() / outputs});
  auto others = [&](bool reverse) {
    return b.create("cumprod", {factors},
                    {{"axis", int64_t(1)}, {"exclusive", true}, {"reverse", reverse}});
  };
  ValueId dx = b.mul(b.mul(others(false), others(true)), b.reshape(c.grad(0), {outputs, 1}));
  dx = b.reshape(dx, moved);
  return {moves ? b.transpose(dx, back) : dx};
}

ValueList vjpLogSumExp(VjpContext &c) { // g exp(x - y): the softmax
  const Type x = c.type(c.operand(0));
  ValueId y = c.b.reshape(c.result(0), keptDims(c.attrs, x));
  ValueId g = c.b.reshape(c.grad(0), keptDims(c.attrs, x));
  return {c.b.mul(g, c.b.create("exp", {c.b.sub(c.operand(0), y)}))};
}

// Operand and result axes of a reduction of operand `x`: those that stay, and with `isSum` those
// that are reduced. Cut along one behind a reduced axis, a result is summed in another order. Other
// operands and results have x's axes or those of the reduction.
Factors factorsOfReduction(const OpCall &c, size_t x, bool isSum) {
  Factors f = wholeFactors(c);
  const Type &from = c.operands[x];
  Factors::Axes all(from.dims.size()), reduced;
  bool isBefore = true;
  for (int64_t i = 0; i < from.rank(); ++i) {
    const bool isGone = isReduced(*c.attrs, from, i);
    isBefore &= !isGone;
    if (!isGone || isSum)
      all[i].factor = uint32_t(i);
    if (!isGone && !isBefore)
      f.rounding.push_back(uint32_t(i));
    if (!isGone)
      reduced.push_back(all[i]);
    else if (c.attrs->getBool("keepdims"))
      reduced.push_back({});
  }
  for (size_t i = 0; i < c.operands.size(); ++i)
    f.operands[i] = i == x ? all : reduced;
  f.results[0] = x == 0 ? reduced : all;
  return f;
}
Factors factorsOfSum(const OpCall &c) { return factorsOfReduction(c, 0, true); }
Factors factorsOfKept(const OpCall &c) { return factorsOfReduction(c, 0, false); }
Factors factorsOfExtremumGrad(const OpCall &c) { return factorsOfReduction(c, 1, false); }
Factors factorsOfArg(const OpCall &c) {
  const int64_t rank = c.operands[0].rank(), axis = axisFromFront(c.attrs->getInt("axis"), rank);
  Factors f = wholeFactors(c);
  f.operands[0] = allButFactors(c, {axis}).operands[0];
  f.results[0] = f.operands[0];
  if (!c.attrs->getBool("keepdims"))
    f.results[0].erase(f.results[0].begin() + axis);
  return f;
}

Cost costReduce(const OpCall &c) {
  return {double(c.operands[0].elements()), double(c.operands[0].bytes() + c.results[0].bytes())};
}

Cost costExponentials(const OpCall &c) {
  Cost cost = costReduce(c);
  cost.flops *= 10;
  return cost;
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
  row.factors = vjp == vjpSum ? factorsOfSum : factorsOfKept;
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
  OpDef prod = reduction("prod", "The product over the axes.", inferSum, vjpProd);
  prod.examples.push_back("prod(i64[2, 3]) {axes = [1]}");
  r.add(std::move(prod));
  AttrDef shareTies = {"share_ties", AttrKind::Bool, false,
                       "whether all elements equal to the extremum share the gradient equally; if "
                       "not, the first of them gets it"};
  for (OpDef row : {reduction("max",
                              "The largest element over the axes; NaN if an element is NaN; the "
                              "least number if there are no elements.",
                              inferSum, vjpMax),
                    reduction("min",
                              "The smallest element over the axes; NaN if an element is NaN; the "
                              "greatest number if there are no elements.",
                              inferSum, vjpMin)}) {
    row.attrs.push_back(shareTies);
    row.examples.push_back(row.name + "(f64[3, 4]) {axes = [1], share_ties = true}");
    r.add(std::move(row));
  }
  OpDef logSumExp = reduction("logsumexp", "log(sum(exp(x))) over the axes, without overflow.",
                              inferMean, vjpLogSumExp);
  logSumExp.cost = costExponentials;
  r.add(std::move(logSumExp));

  struct {
    const char *name, *doc;
    ValueList (*vjp)(VjpContext &);
  } grads[] = {
      {"max_grad",
       "The gradient of max: g at the first of the largest elements, or its share at each of them, "
       "and zero elsewhere. If y is NaN, g goes to the first NaN; with share_ties all are NaN.",
       vjpMaxGrad},
      {"min_grad",
       "The gradient of min: g at the first of the smallest elements, or its share at each of "
       "them, and zero elsewhere. If y is NaN, g goes to the first NaN; with share_ties all are "
       "NaN.",
       vjpMinGrad}};
  for (auto [name, doc, vjp] : grads) {
    OpDef grad;
    grad.name = name;
    grad.doc = doc;
    grad.operands = "g x y";
    grad.results = "dx";
    grad.attrs = axesAttrs();
    grad.attrs.push_back(shareTies);
    grad.infer = inferExtremumGrad;
    grad.vjp = vjp;
    grad.inPlace = {{0, 1}};
    grad.comparedOperands = {1, 2};
    grad.factors = factorsOfExtremumGrad;
    for (const char *rest :
         {"(f64[], f64[2, 3], f64[])", "(f64[3], f64[2, 3], f64[3]) {axes = [0]}",
          "(f64[2, 1], f64[2, 3], f64[2, 1]) {axes = [-1], keepdims = true}",
          "(f64[3], f64[2, 3, 4], f64[3]) {axes = [0, 2]}",
          "(f64[2], f64[2, 3], f64[2]) {axes = [1], share_ties = true}",
          "(f64[3], f64[2, 3, 4], f64[3]) {axes = [0, 2], share_ties = true}"})
      grad.examples.push_back(grad.name + rest);
    r.add(std::move(grad));
  }

  for (auto [name, doc] :
       {std::pair(
            "argmax",
            "The index of the largest element on an axis; that of the first NaN if there is one."),
        std::pair("argmin", "The index of the smallest element on an axis; that of the first NaN "
                            "if there is one.")}) {
    OpDef arg;
    arg.name = name;
    arg.doc = doc;
    arg.operands = "x";
    arg.results = "indices";
    arg.attrs = {{"axis", AttrKind::Int, int64_t(0), "the axis; negative ones count from the end"},
                 {"keepdims", AttrKind::Bool, false, "whether the axis stays, with size one"},
                 {"last", AttrKind::Bool, false,
                  "whether to take the last of equal elements, not the first"}};
    arg.infer = inferArg;
    arg.differentiable = Differentiable::ZeroGradient;
    arg.cost = costReduce;
    arg.factors = factorsOfArg;
    for (const char *rest : {"(f64[2, 3])", "(f64[2, 3, 4]) {axis = -2, keepdims = true}",
                             "(i64[3, 40]) {axis = 1, last = true}"})
      arg.examples.push_back(arg.name + rest);
    r.add(std::move(arg));
  }

  registerScanOps(r);
}

} // namespace isthmus
