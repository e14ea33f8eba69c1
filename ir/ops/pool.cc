// Pools over one to three spatial axes. Global pools are `mean` and `max` over these axes.
//
// max_pool_grad and max_pool_take search x for the place of each window's maximum, so that no
// tensor of indices is kept. The first scatters to these places, the second gathers from them.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/window.h"
#include <algorithm>

namespace isthmus {
namespace {

bool ceilMode(const InferContext &c) { return c.attrs.getBool("ceil_mode"); }

// The type of the pool's result for `image`.
llvm::Expected<Type> pooled(const InferContext &c, const Type &image) {
  const Ints &kernel = c.attrs.getInts("kernel");
  if (kernel.size() != spatial(image).size())
    return c.error("expects {0} numbers in 'kernel', got {1}", spatial(image).size(),
                   attrText(kernel));
  auto window = checkedWindow(c, kernel);
  if (!window)
    return window.takeError();
  for (const WindowAxis &a : *window)
    if (std::max(a.padLow, a.padHigh) >= a.extent())
      return c.error("expects padding smaller than the window, got {0} for windows that span {1}",
                     std::max(a.padLow, a.padHigh), a.extent());
  auto out = windowPlaces(c, *window, spatial(image), ceilMode(c));
  if (!out)
    return out.takeError();
  out->insert(out->begin(), {image.dims[0], image.dims[1]});
  return image.with(*out);
}

llvm::Error expectImage(const InferContext &c, size_t i) {
  if (llvm::Error e = c.expectFloat(i))
    return e;
  return c.expectRank(i, 3, 5);
}

llvm::Error expectPooled(const InferContext &c, size_t i, const Type &image) {
  auto want = pooled(c, image);
  if (!want)
    return want.takeError();
  if (c.operand(i) == *want)
    return llvm::Error::success();
  return c.error("expects '{0}' of the pool's type, '{1}', got '{2}'", c.op.operandNames[i],
                 want->str(), c.operand(i).str());
}

llvm::Expected<TypeList> inferPool(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 0))
    return e;
  if (c.attrs.find("divisor") && c.attrs.getInt("divisor") < 0)
    return c.error("expects a divisor of 0 or more, got {0}", c.attrs.getInt("divisor"));
  auto y = pooled(c, c.operand(0));
  if (!y)
    return y.takeError();
  return TypeList{*y};
}

// The result type of a max pool, which accepts integers too.
llvm::Expected<Type> maxPooled(const InferContext &c) {
  if (c.operand(0).dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'; cast it first", c.operand(0).str());
  if (llvm::Error e = c.expectRank(0, 3, 5))
    return e;
  return pooled(c, c.operand(0));
}

llvm::Expected<TypeList> inferMaxPool(const InferContext &c) {
  auto y = maxPooled(c);
  if (!y)
    return y.takeError();
  return TypeList{*y};
}

llvm::Expected<TypeList> inferMaxPoolIndices(const InferContext &c) {
  auto y = maxPooled(c);
  if (!y)
    return y.takeError();
  return TypeList{y->with(DType::I64)};
}

llvm::Expected<TypeList> inferMaxPoolGrad(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 1))
    return e;
  if (llvm::Error e = expectPooled(c, 0, c.operand(1)))
    return e;
  return TypeList{c.operand(1)};
}

llvm::Expected<TypeList> inferMaxPoolTake(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 1))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  auto y = pooled(c, c.operand(1));
  if (!y)
    return y.takeError();
  return TypeList{*y};
}

llvm::Expected<TypeList> inferAvgPoolGrad(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 0))
    return e;
  const Type &g = c.operand(0);
  const Ints &dims = c.attrs.getInts("dims");
  if (dims.size() != spatial(g).size())
    return c.error("expects {0} numbers in 'dims', got {1}", spatial(g).size(), attrText(dims));
  for (int64_t d : dims)
    if (d < 0 || d > int64_t(1) << 60)
      return c.error("expects sizes from 0 to 2^60 in 'dims', got {0}", attrText(dims));
  Dims all = {g.dims[0], g.dims[1]};
  all.append(dims.begin(), dims.end());
  if (llvm::Error e = expectPooled(c, 0, g.with(all)))
    return e;
  return TypeList{g.with(all)};
}

// --- Gradients

ValueList vjpMaxPool(VjpContext &c) {
  return {c.b.create("max_pool_grad", {c.grad(0), c.operand(0)}, c.attrs)};
}
// Linear in the first operand, piecewise constant in x.
ValueList vjpMaxPoolGrad(VjpContext &c) {
  return {c.wants(0) ? c.b.create("max_pool_take", {c.grad(0), c.operand(1)}, c.attrs) : ValueId(),
          ValueId()};
}
ValueList vjpMaxPoolTake(VjpContext &c) {
  return {c.wants(0) ? c.b.create("max_pool_grad", {c.grad(0), c.operand(1)}, c.attrs) : ValueId(),
          ValueId()};
}
ValueList vjpAvgPool(VjpContext &c) {
  Attrs attrs = c.attrs;
  llvm::ArrayRef<int64_t> dims = spatial(c.type(c.operand(0)));
  attrs.set("dims", Ints(dims.begin(), dims.end()));
  return {c.b.create("avg_pool_grad", {c.grad(0)}, attrs)};
}
ValueList vjpAvgPoolGrad(VjpContext &c) {
  Attrs attrs = c.attrs;
  attrs.erase("dims");
  return {c.b.create("avg_pool", {c.grad(0)}, attrs)};
}

// One flop for each element of each window.
Cost costPool(const OpCall &c, const Type &y) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  cost.bytes += double(c.results[0].bytes());
  cost.flops = double(y.elements());
  for (int64_t k : c.attrs->getInts("kernel"))
    cost.flops *= double(k);
  return cost;
}
Cost costForward(const OpCall &c) { return costPool(c, c.results[0]); }
Cost costBackward(const OpCall &c) { return costPool(c, c.operands[0]); }

// --- Rows

const AttrDef kKernel = {
    "kernel", AttrKind::IntList, {}, "the window's size along each spatial axis"};
const AttrDef kStrides = {"strides", AttrKind::IntList, Ints(),
                          "steps of the window, one per spatial axis; ones if empty"};
const AttrDef kPads = {"pads", AttrKind::IntList, Ints(),
                       "padding around x: all low sides, then all high sides; none if empty"};
const AttrDef kDilations = {"dilations", AttrKind::IntList, Ints(),
                            "distances between the window's elements; ones if empty"};
const AttrDef kCeil = {
    "ceil_mode", AttrKind::Bool, false,
    "whether a last window that reaches beyond the end counts, if it starts before the end"};
const AttrDef kCountPad = {"count_include_pad", AttrKind::Bool, true,
                           "whether padding counts as zero elements; the part of a window beyond "
                           "the padding never counts"};
const AttrDef kDivisor = {"divisor", AttrKind::Int, int64_t(0),
                          "the divisor of the sums; 0: the number of elements"};
const AttrDef kDims = {"dims", AttrKind::IntList, {}, "spatial sizes of the result"};

} // namespace

void registerPoolOps(OpRegistry &r) {
  const std::vector<AttrDef> maxAttrs = {kKernel, kStrides, kPads, kDilations, kCeil};
  std::vector<AttrDef> indexAttrs = maxAttrs;
  indexAttrs.push_back({"column_major", AttrKind::Bool, false,
                        "whether the index varies fastest along the first spatial axis"});
  r.add(
      {{.name = "max_pool",
        .doc = "The maximum of each window, without its padding; NaN if an element is NaN.",
        .operands = "x",
        .results = "y",
        .attrs = maxAttrs,
        .infer = inferMaxPool,
        .vjp = vjpMaxPool,
        .cost = costForward,
        .factors = [](const OpCall &c) { return leadingFactors(c, 2, {0}, {0}); },
        .examples =
            {"max_pool(f64[2, 3, 7]) {kernel = [3], strides = [2]}",
             "max_pool(f64[2, 2, 6, 7]) {kernel = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1]}",
             "max_pool(f64[1, 2, 6, 6]) {kernel = [2, 2]}",
             "max_pool(f64[1, 2, 6, 6]) {kernel = [3, 3], strides = [2, 2], ceil_mode = true}",
             "max_pool(f64[1, 2, 7, 7]) {kernel = [2, 3], dilations = [3, 2], pads = [1, 1, 0, 0]}",
             "max_pool(f64[1, 2, 4, 4, 5]) {kernel = [2, 2, 2], strides = [2, 2, 1]}",
             "max_pool(u8[1, 2, 5, 5]) {kernel = [3, 2], strides = [2, 2]}",
             "max_pool(i64[1, 2, 5]) {kernel = [2]}"}},
       {.name = "max_pool_indices",
        .doc =
            "The position of each window's first maximum, as an index into the whole of x; NaN is "
            "the largest. With `column_major` the index has the spatial axes in reverse order.",
        .operands = "x",
        .results = "indices",
        .attrs = indexAttrs,
        .infer = inferMaxPoolIndices,
        .differentiable = Differentiable::ZeroGradient,
        .cost = costForward,
        .examples =
            {"max_pool_indices(f64[2, 3, 7]) {kernel = [3], strides = [2]}",
             "max_pool_indices(f64[2, 2, 6, 7]) {kernel = [3, 2], strides = [2, 3], pads = [1, 0, "
             "1, 1], column_major = true}",
             "max_pool_indices(u8[1, 2, 4, 4, 5]) {kernel = [2, 2, 2], dilations = [2, 2, 1]}"}},
       {.name = "max_pool_grad",
        .doc = "The gradient of max_pool at x: each element of g added where its window has its "
               "first maximum, in "
               "row-major order.",
        .operands = "g x",
        .results = "dx",
        .attrs = maxAttrs,
        .infer = inferMaxPoolGrad,
        .vjp = vjpMaxPoolGrad,
        .cost = costBackward,
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, 2, {0, 1}, {0});
            },
        .examples =
            {"max_pool_grad(f64[2, 3, 3], f64[2, 3, 7]) {kernel = [3], strides = [2]}",
             "max_pool_grad(f64[2, 2, 3, 3], f64[2, 2, 6, 7]) {kernel = [3, 2], strides = [2, 3], "
             "pads = [1, 0, 1, 1]}",
             "max_pool_grad(f64[1, 2, 3, 3], f64[1, 2, 6, 6]) {kernel = [3, 3], strides = [2, 2], "
             "ceil_mode = true}",
             "max_pool_grad(f64[1, 2, 2, 2, 4], f64[1, 2, 4, 4, 5]) {kernel = [2, 2, 2], "
             "strides = [2, 2, 1]}"}},
       {.name = "max_pool_take",
        .doc = "The transpose of max_pool_grad: the elements of v where the windows on x have "
               "their first maximum.",
        .operands = "v x",
        .results = "y",
        .attrs = maxAttrs,
        .infer = inferMaxPoolTake,
        .vjp = vjpMaxPoolTake,
        .cost = costForward,
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, 2, {0, 1}, {0});
            },
        .examples =
            {"max_pool_take(f64[2, 3, 7], f64[2, 3, 7]) {kernel = [3], strides = [2]}",
             "max_pool_take(f64[1, 2, 6, 7], f64[1, 2, 6, 7]) {kernel = [3, 2], strides = [2, 3], "
             "pads = [1, 0, 1, 1]}"}},
       {.name = "avg_pool",
        .doc = "The mean of each window, or its sum over a given divisor.",
        .operands = "x",
        .results = "y",
        .attrs = {kKernel, kStrides, kPads, kDilations, kCeil, kCountPad, kDivisor},
        .infer = inferPool,
        .vjp = vjpAvgPool,
        .cost = costForward,
        .factors = [](const OpCall &c) { return leadingFactors(c, 2, {0}, {0}); },
        .examples =
            {"avg_pool(f64[2, 3, 7]) {kernel = [3], strides = [2]}",
             "avg_pool(f64[2, 2, 6, 7]) {kernel = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1]}",
             "avg_pool(f64[2, 2, 6, 7]) {kernel = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1], "
             "count_include_pad = false}",
             "avg_pool(f64[1, 2, 6, 6]) {kernel = [3, 3], strides = [2, 2], pads = [1, 0, 0, 0], "
             "ceil_mode = true}",
             "avg_pool(f64[1, 2, 4, 4, 5]) {kernel = [2, 2, 2], strides = [2, 2, 1]}",
             "avg_pool(f64[1, 2, 7, 8]) {kernel = [2, 3], dilations = [3, 2], strides = [2, 2], "
             "pads = [1, 1, 0, 2], count_include_pad = false}",
             "avg_pool(f64[1, 2, 7, 8]) {kernel = [2, 3], dilations = [3, 2], strides = [2, 2], "
             "pads = [1, 1, 0, 2], ceil_mode = true}",
             "avg_pool(f64[2, 2, 5]) {kernel = [3], pads = [1, 1], divisor = 1}"}},
       {.name = "avg_pool_grad",
        .doc = "The gradient of avg_pool.",
        .operands = "g",
        .results = "dx",
        .attrs = {kKernel, kStrides, kPads, kDilations, kCeil, kCountPad, kDivisor, kDims},
        .infer = inferAvgPoolGrad,
        .vjp = vjpAvgPoolGrad,
        .cost = costBackward,
        .factors = [](const OpCall &c) { return leadingFactors(c, 2, {0}, {0}); },
        .examples = {"avg_pool_grad(f64[2, 3, 3]) {kernel = [3], strides = [2], dims = [7]}",
                     "avg_pool_grad(f64[2, 2, 3, 3]) {kernel = [3, 2], strides = [2, 3], pads = "
                     "[1, 0, 1, 1], "
                     "dims = [6, 7], count_include_pad = false}",
                     "avg_pool_grad(f64[1, 2, 3, 3]) {kernel = [3, 3], strides = [2, 2], pads = "
                     "[1, 0, 0, 0], "
                     "ceil_mode = true, dims = [6, 6]}",
                     "avg_pool_grad(f64[1, 2, 3, 4]) {kernel = [2, 3], dilations = [3, 2], strides "
                     "= [2, 2], pads = [1, 1, 0, 2], dims = [7, 8], count_include_pad = false}",
                     "avg_pool_grad(f64[2, 2, 5]) {kernel = [3], pads = [1, 1], divisor = 1, dims "
                     "= [5]}"}}});
}

} // namespace isthmus
