// Convolutions over one to three spatial axes: x [N, C, ...], w [O, C / groups, kernel ...].
//
// conv, conv_transpose and conv_weight_grad are the three derivatives of one trilinear form sum
// g[n, o, p] x[n, c, p * stride + k * dilation - pad] w[o, c, k]: each computes the factor that it
// does not read, and the gradients of each are the other two. So derivatives of any order need no
// further rows.

#include "ir/factors.h"
#include "ir/ops/channels.h"
#include "ir/ops/families.h"
#include "ir/ops/window.h"
#include "ir/value_facts.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

Ints ints(llvm::ArrayRef<int64_t> a) { return Ints(a.begin(), a.end()); }

// The attributes that the three rows share, and one more if the row has it.
Attrs windowAttrs(const Attrs &from, llvm::StringRef more = {},
                  llvm::ArrayRef<int64_t> value = {}) {
  Attrs a;
  for (const char *name : {"strides", "pads", "dilations", "groups", kChannelsLast})
    a.set(name, *from.find(name));
  if (!more.empty())
    a.set(more, ints(value));
  return a;
}

// --- Shape rules

llvm::Error expectOneFloatType(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  for (size_t i = 1; i < c.operands.size(); ++i)
    if (c.operand(i).dtype != c.operand(0).dtype)
      return c.error("expects '{0}' and '{1}' of one element type, got '{2}' and '{3}'",
                     c.op.operandNames[0], c.op.operandNames[i], c.operand(0).str(),
                     c.operand(i).str());
  if (llvm::Error e = c.expectRank(0, 3, 5))
    return e;
  return c.expectRank(1, c.operand(0).rank(), c.operand(0).rank());
}

llvm::Expected<int64_t> groupsOf(const InferContext &c) {
  int64_t groups = c.attrs.getInt("groups");
  if (groups < 1)
    return c.error("expects 1 group or more, got {0}", groups);
  return groups;
}

llvm::Error expectDivisible(const InferContext &c, size_t operand, size_t axis, int64_t groups) {
  int64_t size = c.operand(operand).dims[axis];
  if (size % groups == 0)
    return llvm::Error::success();
  return c.error("expects axis {0} of '{1}' to be a multiple of the {2} groups, got '{3}'", axis,
                 c.op.operandNames[operand], groups, c.operand(operand).str());
}

llvm::Error expectBias(const InferContext &c, int64_t channels) {
  if (!c.has(2) || (c.operand(2).rank() == 1 && c.operand(2).dims[0] == channels))
    return llvm::Error::success();
  return c.error("expects a bias of {0} elements, one per channel of the result, got '{1}'",
                 channels, c.operand(2).str());
}

// Expects `got` to be the numbers of window positions on an image of `sizes`.
llvm::Error expectPlaces(const InferContext &c, const Window &w, llvm::ArrayRef<int64_t> sizes,
                         llvm::ArrayRef<int64_t> got) {
  auto want = windowPlaces(c, w, sizes);
  if (!want)
    return want.takeError();
  if (llvm::makeArrayRef(*want) == got)
    return llvm::Error::success();
  return c.error("expects '{0}' of spatial sizes {1}, where the window stands on {2}, got '{3}'",
                 c.op.operandNames[0], attrText(ints(*want)), attrText(ints(sizes)),
                 c.operand(0).str());
}

llvm::Expected<TypeList> inferConvFirst(const InferContext &c) {
  if (llvm::Error e = expectOneFloatType(c))
    return e;
  auto groups = groupsOf(c);
  if (!groups)
    return groups.takeError();
  const Type &x = c.operand(0), &w = c.operand(1);
  if (llvm::Error e = expectDivisible(c, 0, 1, *groups))
    return e;
  if (llvm::Error e = expectDivisible(c, 1, 0, *groups))
    return e;
  if (x.dims[1] / *groups != w.dims[1])
    return c.error(
        "expects axis 1 of 'w' to be the channels of 'x' over the groups, {0}, got '{1}' and '{2}'",
        x.dims[1] / *groups, x.str(), w.str());
  if (llvm::Error e = expectBias(c, w.dims[0]))
    return e;
  auto window = checkedWindow(c, spatial(w));
  if (!window)
    return window.takeError();
  auto out = windowPlaces(c, *window, spatial(x));
  if (!out)
    return out.takeError();
  out->insert(out->begin(), {x.dims[0], w.dims[0]});
  return TypeList{x.with(*out)};
}

// The spatial sizes of conv_transpose's result: `dims`, or the smallest that fit if `dims` is
// empty.
Dims transposeDims(const Attrs &attrs, const Window &w, llvm::ArrayRef<int64_t> places) {
  const Ints &given = attrs.getInts("dims");
  if (!given.empty())
    return Dims(given.begin(), given.end());
  Dims out;
  for (size_t i = 0; i < w.size(); ++i)
    out.push_back((places[i] - 1) * w[i].stride + w[i].extent() - w[i].padLow - w[i].padHigh);
  return out;
}

llvm::Expected<TypeList> inferConvTransposeFirst(const InferContext &c) {
  if (llvm::Error e = expectOneFloatType(c))
    return e;
  auto groups = groupsOf(c);
  if (!groups)
    return groups.takeError();
  const Type &g = c.operand(0), &w = c.operand(1);
  if (g.dims[1] != w.dims[0])
    return c.error("expects axis 0 of 'w' to be the channels of 'g', got '{0}' and '{1}'", g.str(),
                   w.str());
  if (llvm::Error e = expectDivisible(c, 0, 1, *groups))
    return e;
  auto window = checkedWindow(c, spatial(w));
  if (!window)
    return window.takeError();
  constexpr int64_t kMaxSize = int64_t(1) << 31;
  if (c.attrs.getInts("dims").empty()) {
    for (int64_t d : spatial(g))
      if (d > kMaxSize)
        return c.error("expects spatial sizes up to 2^31, got '{0}'", g.str());
  } else if (c.attrs.getInts("dims").size() != window->size()) {
    return c.error("expects {0} numbers in 'dims', got {1}", window->size(),
                   attrText(c.attrs.getInts("dims")));
  }
  Dims dims = transposeDims(c.attrs, *window, spatial(g));
  for (int64_t d : dims)
    if (d < 0 || d > int64_t(1) << 62)
      return c.error("expects a result of sizes 0 or more, got {0}", attrText(ints(dims)));
  if (llvm::Error e = expectPlaces(c, *window, dims, spatial(g)))
    return e;
  int64_t channels;
  if (__builtin_mul_overflow(w.dims[1], *groups, &channels))
    return c.error("expects fewer groups, got {0}", *groups);
  if (llvm::Error e = expectBias(c, channels))
    return e;
  dims.insert(dims.begin(), {g.dims[0], channels});
  return TypeList{g.with(dims)};
}

llvm::Expected<TypeList> inferConvWeightGradFirst(const InferContext &c) {
  if (llvm::Error e = expectOneFloatType(c))
    return e;
  auto groups = groupsOf(c);
  if (!groups)
    return groups.takeError();
  const Type &g = c.operand(0), &x = c.operand(1);
  if (g.dims[0] != x.dims[0])
    return c.error("expects 'g' and 'x' of one batch size, got '{0}' and '{1}'", g.str(), x.str());
  for (size_t i : {0, 1})
    if (llvm::Error e = expectDivisible(c, i, 1, *groups))
      return e;
  const Ints &kernel = c.attrs.getInts("kernel");
  if (kernel.size() != spatial(x).size())
    return c.error("expects {0} numbers in 'kernel', got {1}", spatial(x).size(), attrText(kernel));
  auto window = checkedWindow(c, kernel);
  if (!window)
    return window.takeError();
  if (llvm::Error e = expectPlaces(c, *window, spatial(x), spatial(g)))
    return e;
  Dims dims = {g.dims[1], x.dims[1] / *groups};
  dims.append(kernel.begin(), kernel.end());
  return TypeList{g.with(dims)};
}

llvm::Expected<TypeList> inferConv(const InferContext &c) {
  return inferEitherWay(c, inferConvFirst);
}
llvm::Expected<TypeList> inferConvTranspose(const InferContext &c) {
  return inferEitherWay(c, inferConvTransposeFirst);
}
llvm::Expected<TypeList> inferConvWeightGrad(const InferContext &c) {
  return inferEitherWay(c, inferConvWeightGradFirst);
}

// --- Gradients

Dims spatialOf(VjpContext &c, ValueId v) {
  Dims dims(c.type(v).dims);
  dims.erase(dims.begin() + channelAxis(c.attrs, c.type(v).rank()));
  dims.erase(dims.begin());
  return dims;
}

ValueId biasGrad(VjpContext &c) {
  Ints axes;
  int64_t rank = c.type(c.grad(0)).rank();
  for (int64_t a = 0; a < rank; ++a)
    if (a != channelAxis(c.attrs, rank))
      axes.push_back(a);
  return c.b.sum(c.grad(0), axes, /*keepDims=*/false);
}

ValueList vjpConv(VjpContext &c) {
  ValueId x = c.operand(0), w = c.operand(1);
  ValueList out(c.numOperands());
  if (c.wants(0))
    out[0] =
        c.b.create("conv_transpose", {c.grad(0), w}, windowAttrs(c.attrs, "dims", spatialOf(c, x)));
  if (c.wants(1))
    out[1] = c.b.create("conv_weight_grad", {c.grad(0), x},
                        windowAttrs(c.attrs, "kernel", spatialOf(c, w)));
  if (c.wants(2))
    out[2] = biasGrad(c);
  return out;
}

ValueList vjpConvTranspose(VjpContext &c) {
  ValueId g = c.operand(0), w = c.operand(1);
  ValueList out(c.numOperands());
  if (c.wants(0))
    out[0] = c.b.create("conv", {c.grad(0), w}, windowAttrs(c.attrs));
  if (c.wants(1))
    out[1] = c.b.create("conv_weight_grad", {g, c.grad(0)},
                        windowAttrs(c.attrs, "kernel", spatialOf(c, w)));
  if (c.wants(2))
    out[2] = biasGrad(c);
  return out;
}

ValueList vjpConvWeightGrad(VjpContext &c) { // grad(0) has w's shape
  ValueId g = c.operand(0), x = c.operand(1);
  return {c.wants(0) ? c.b.create("conv", {x, c.grad(0)}, windowAttrs(c.attrs)) : ValueId(),
          c.wants(1) ? c.b.create("conv_transpose", {g, c.grad(0)},
                                  windowAttrs(c.attrs, "dims", spatialOf(c, x)))
                     : ValueId()};
}

// --- Inverses exist if the window has one element and visits every pixel. The three rows then
// multiply the channels of each pixel by a matrix, or by one matrix per group.

bool isProductPerPixel(const InverseContext &c, const Type &w) {
  auto all = [&](const char *name, int64_t value) {
    return llvm::all_of(c.attrs.getInts(name), [&](int64_t i) { return i == value; });
  };
  int64_t axis = channelAxis(c.attrs, w.rank());
  for (int64_t a = 1; a < w.rank(); ++a)
    if (a != axis && w.dims[a] != 1)
      return false;
  return all("strides", 1) && all("pads", 0) && w.dims[0] % c.attrs.getInt("groups") == 0 &&
         w.dims[0] / c.attrs.getInt("groups") == w.dims[axis];
}

// Applies the row `op` with the inverse of `w`, and with the bias that undoes the node's bias. The
// matrices multiply columns of channels; if `transposed`, their transposes do.
ValueId inversePerPixel(InverseContext &c, size_t wanted, const char *op, bool transposed) {
  Builder &b = c.b;
  if (wanted != 0 || !isProductPerPixel(c, b.type(c.operands[1])))
    return ValueId();
  const Dims dims = b.type(c.operands[1]).dims;
  int64_t groups = c.attrs.getInt("groups"), each = dims[0] / groups;
  ValueId inverse = b.create("inverse", {b.reshape(c.operands[1], {groups, each, each})});
  ValueList operands = {c.results[0], b.reshape(inverse, dims)};
  if (c.operands.size() > 2) {
    ValueId bias = b.reshape(c.operands[2], {groups, each, 1});
    bias = b.create("matmul", {inverse, bias}, {{"transpose_a", transposed}});
    operands.push_back(b.neg(b.reshape(bias, {dims[0]})));
  }
  return b.create(op, operands, windowAttrs(c.attrs));
}

ValueId inverseConv(InverseContext &c, size_t wanted) {
  return inversePerPixel(c, wanted, "conv", false);
}
ValueId inverseConvTranspose(InverseContext &c, size_t wanted) {
  return inversePerPixel(c, wanted, "conv_transpose", true);
}
bool filterIsWeight(const ValueFacts &facts, const Node &n, size_t) {
  return facts.isWeight(n.operands[1]);
}

// --- Cost: a multiply-add for each element of g and each weight of its output channel.

Cost costOfForm(const OpCall &c, const Type &g, const Type &w) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  cost.bytes += double(c.results[0].bytes());
  double each = double(w.dims[1]);
  for (int64_t k : spatial(w))
    each *= double(k);
  cost.flops = 2 * double(g.elements()) * each;
  return cost;
}
Cost costConv(const OpCall &given) {
  OpCall c = channelsFirst(given);
  return costOfForm(c, c.results[0], c.operands[1]);
}
Cost costConvTranspose(const OpCall &given) {
  OpCall c = channelsFirst(given);
  return costOfForm(c, c.operands[0], c.operands[1]);
}
Cost costConvWeightGrad(const OpCall &given) {
  OpCall c = channelsFirst(given);
  return costOfForm(c, c.operands[0], c.results[0]);
}

// --- Rows

std::vector<AttrDef> attrsWith(std::vector<AttrDef> more) {
  std::vector<AttrDef> a = {{"strides", AttrKind::IntList, Ints(),
                             "steps of the window, one per spatial axis; ones if empty"},
                            {"pads", AttrKind::IntList, Ints(),
                             "zeros around x: all low sides, then all high sides; none if empty"},
                            {"dilations", AttrKind::IntList, Ints(),
                             "distances between the window's elements; ones if empty"},
                            {"groups", AttrKind::Int, int64_t(1),
                             "the number of groups of channels, which are convolved separately"},
                            channelsLastAttr()};
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

} // namespace

void registerConvOps(OpRegistry &r) {
  r.add({{.name = "conv",
          .doc = "The convolution (cross-correlation) of x [N, C, ...] with w [O, C / groups, "
                 "...], plus an optional bias per output channel.",
          .operands = "x w bias?",
          .results = "y",
          .attrs = attrsWith({}),
          .traits = kContraction,
          .infer = inferConv,
          .vjp = vjpConv,
          .inverse = inverseConv,
          .inverseHolds = filterIsWeight,
          .inverseError = 1e-5,
          .cost = costConv,
          .factors = [](const OpCall &c) { return leadingFactors(c, 1, {0}, {0}); },
          .examples =
              {"conv(f64[2, 3, 7], f64[4, 3, 3])",
               "conv(f64[2, 3, 8], f64[4, 3, 3], f64[4]) {strides = [2], pads = [1, 0]}",
               "conv(f64[2, 3, 5, 6], f64[4, 3, 3, 2])",
               "conv(f64[1, 2, 6, 7], f64[3, 2, 3, 3], f64[3]) {strides = [2, 3], pads = [1, 2, 0, "
               "1]}",
               "conv(f64[1, 4, 6, 6], f64[6, 2, 3, 3]) {groups = 2, pads = [1, 1, 1, 1]}",
               "conv(f64[2, 3, 5, 5], f64[3, 1, 3, 3]) {groups = 3, pads = [1, 1, 1, 1], strides = "
               "[2, 2]}",
               "conv(f64[1, 2, 7, 8], f64[2, 2, 3, 2]) {dilations = [2, 3], pads = [2, 0, 1, 1]}",
               "conv(f64[2, 3, 4, 4], f64[2, 3, 1, 1]) {strides = [2, 2]}",
               "conv(f64[1, 2, 4, 3, 5], f64[2, 2, 2, 3, 2], f64[2]) {strides = [1, 2, 2], "
               "pads = [0, 1, 1, 1, 1, 0], dilations = [2, 1, 1]}",
               "conv(f64[2, 8, 3], f64[4, 3, 3], f64[4]) {channels_last = true, strides = [2], "
               "pads = [1, 0]}",
               "conv(f64[2, 5, 6, 3], f64[4, 3, 2, 3]) {channels_last = true, pads = [1, 0, 0, 1]}",
               "conv(f64[1, 6, 6, 4], f64[6, 3, 3, 2], f64[6]) {channels_last = true, groups = 2, "
               "strides = [1, 2], dilations = [2, 1]}",
               "conv(f64[2, 3, 4, 5], f64[6, 1, 1, 5]) {channels_last = true}",
               "conv(f64[1, 4, 3, 5, 2], f64[2, 2, 3, 2, 2]) {channels_last = true, strides = [1, "
               "2, 2], pads = [0, 1, 1, 1, 1, 0]}",
               "conv(f64[2, 4, 3, 2], f64[4, 2, 1, 1], f64[4]) {groups = 2}",
               "conv(f64[2, 5, 3], f64[3, 1, 3]) {channels_last = true}"}},
         {.name = "conv_transpose",
          .doc = "The transpose of conv: the gradient of conv for x, given that of its result. It "
                 "is also a layer of its own, with an optional bias per channel of the result.",
          .operands = "g w bias?",
          .results = "x",
          .attrs = attrsWith({{"dims", AttrKind::IntList, Ints(),
                               "spatial sizes of the result (with a stride, several are possible); "
                               "the least if empty"}}),
          .traits = kContraction,
          .infer = inferConvTranspose,
          .vjp = vjpConvTranspose,
          .inverse = inverseConvTranspose,
          .inverseHolds = filterIsWeight,
          .inverseError = 1e-5,
          .cost = costConvTranspose,
          .factors = [](const OpCall &c) { return leadingFactors(c, 1, {0}, {0}); },
          .examples = {"conv_transpose(f64[2, 4, 5], f64[4, 3, 3], f64[3])",
                       "conv_transpose(f64[2, 4, 4], f64[4, 3, 3]) {strides = [2], pads = [1, 0], "
                       "dims = [9]}",
                       "conv_transpose(f64[1, 3, 3, 2], f64[3, 2, 3, 2]) {strides = [2, 3], pads = "
                       "[1, 0, 0, 1]}",
                       "conv_transpose(f64[1, 6, 3, 3], f64[6, 2, 3, 3], f64[4]) {groups = 2, "
                       "strides = [2, 2], "
                       "pads = [1, 1, 1, 1], dims = [6, 6]}",
                       "conv_transpose(f64[1, 2, 3, 3], f64[2, 2, 2, 2]) {dilations = [2, 1]}",
                       "conv_transpose(f64[1, 2, 2, 2, 2], f64[2, 1, 2, 2, 2]) {groups = 2, "
                       "strides = [2, 1, 2]}",
                       "conv_transpose(f64[2, 5, 4], f64[4, 3, 3]) {channels_last = true, strides "
                       "= [2], pads = [1, 0], dims = [11]}",
                       "conv_transpose(f64[1, 3, 2, 6], f64[6, 3, 2, 2], f64[4]) {channels_last = "
                       "true, groups = 2, strides = [2, 1], pads = [1, 0, 0, 1]}",
                       "conv_transpose(f64[1, 2, 2, 3, 2], f64[2, 2, 2, 2, 3]) {channels_last = "
                       "true, dilations = [1, 2, 1]}",
                       "conv_transpose(f64[2, 4, 3], f64[4, 2, 1], f64[4]) {groups = 2}",
                       "conv_transpose(f64[2, 5, 3], f64[3, 1, 3]) {channels_last = true}"}},
         {.name = "conv_weight_grad",
          .doc = "The gradient of conv for w, given that of its result and x.",
          .operands = "g x",
          .results = "w",
          .attrs = attrsWith({{"kernel", AttrKind::IntList, {}, "spatial sizes of w"}}),
          .traits = kContraction,
          .infer = inferConvWeightGrad,
          .vjp = vjpConvWeightGrad,
          .cost = costConvWeightGrad,
          .factors =
              [](const OpCall &c) {
                return leadingFactors(c, 1, {0, 1}, {});
              },
          .examples = {
              "conv_weight_grad(f64[2, 4, 5], f64[2, 3, 7]) {kernel = [3]}",
              "conv_weight_grad(f64[1, 3, 3, 3], f64[1, 2, 6, 7]) {kernel = [3, 3], strides = [2, "
              "3], "
              "pads = [1, 2, 0, 1]}",
              "conv_weight_grad(f64[2, 6, 6, 6], f64[2, 4, 6, 6]) {kernel = [3, 3], groups = 2, "
              "pads = [1, 1, 1, 1]}",
              "conv_weight_grad(f64[1, 2, 6, 6], f64[1, 2, 7, 8]) {kernel = [3, 2], dilations = "
              "[2, 3], "
              "pads = [2, 0, 1, 1]}",
              "conv_weight_grad(f64[1, 2, 2, 2, 3], f64[1, 2, 3, 3, 3]) {kernel = [2, 2, 1]}",
              "conv_weight_grad(f64[2, 5, 4], f64[2, 7, 3]) {channels_last = true, kernel = [3]}",
              "conv_weight_grad(f64[2, 4, 3, 6], f64[2, 7, 6, 4]) {channels_last = true, kernel = "
              "[3, 2], groups = 2, strides = [2, 2], pads = [1, 0, 1, 1]}",
              "conv_weight_grad(f64[1, 2, 2, 3, 2], f64[1, 3, 3, 3, 2]) {channels_last = true, "
              "kernel = [2, 2, 1]}"}}});
}

} // namespace isthmus
