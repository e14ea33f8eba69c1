// Weighted sums of elements at places that are operands: all forms of resampling.
//
// interpolate, interpolate_transpose and interpolate_weights are the three derivatives of one
// trilinear form sum g[n, c, p, i] w[n, p, k] x[n, c, at[n, p, k], i]: each computes the factor
// that it does not read, and the gradients of each are the other two. So derivatives of any order
// need no further rows. Resampling along one axis of an image (Resize), over a whole image
// (GridSample, RoiAlign) or under a deformed kernel (DeformConv) differs only in the places and
// weights. Elementwise nodes compute both, and pass on the gradients for a grid or an offset.

#include "ir/factors.h"
#include "ir/ops/families.h"

namespace isthmus {
namespace {

// Weights have the image's type, or f32 for an image of 16 bits.
bool isWeightType(DType w, DType image) {
  return w == image || (w == DType::F32 && dtypeBytes(image) == 2);
}

constexpr int64_t kMost = int64_t(1) << 31; // kernels keep places in 32 bits

// Expects `at` to be [1 or batch, points, taps], where the batch is that of operand `i`, of rank 4.
llvm::Error expectPlaces(const InferContext &c, size_t at, size_t i) {
  if (llvm::Error e = c.expectInteger(at))
    return e;
  if (llvm::Error e = c.expectRank(at, 3, 3))
    return e;
  const Type &places = c.operand(at), &x = c.operand(i);
  if (places.dims[0] != 1 && places.dims[0] != x.dims[0])
    return c.error("expects '{0}' of batch size 1 or {1}, that of '{2}', got '{3}'",
                   c.op.operandNames[at], x.dims[0], x.str(), places.str());
  if (places.elements() >= kMost)
    return c.error("expects fewer than 2^31 elements in '{0}', got '{1}'", c.op.operandNames[at],
                   places.str());
  return llvm::Error::success();
}

llvm::Error expectImage(const InferContext &c, size_t i) {
  if (llvm::Error e = c.expectFloat(i))
    return e;
  return c.expectRank(i, 4, 4);
}

llvm::Error expectWeights(const InferContext &c, size_t w, size_t at, DType image) {
  const Type &got = c.operand(w);
  if (isWeightType(got.dtype, image) && got.dims == c.operand(at).dims)
    return llvm::Error::success();
  return c.error("expects '{0}' of type '{1}', or f32 beside 16 bits, a weight for each place, got "
                 "'{2}'",
                 c.op.operandNames[w], c.operand(at).with(image).str(), got.str());
}

llvm::Error expectPoints(const InferContext &c, size_t g, size_t at) {
  if (c.operand(g).dims[2] == c.operand(at).dims[1])
    return llvm::Error::success();
  return c.error("expects axis 2 of '{0}' to be the points of '{1}', {2}, got '{3}'",
                 c.op.operandNames[g], c.op.operandNames[at], c.operand(at).dims[1],
                 c.operand(g).str());
}

llvm::Expected<TypeList> inferInterpolate(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 0))
    return e;
  if (llvm::Error e = expectPlaces(c, 1, 0))
    return e;
  if (llvm::Error e = expectWeights(c, 2, 1, c.operand(0).dtype))
    return e;
  Type y = c.operand(0);
  y.dims[2] = c.operand(1).dims[1];
  return TypeList{y};
}

llvm::Expected<TypeList> inferTranspose(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 0))
    return e;
  if (llvm::Error e = expectPlaces(c, 1, 0))
    return e;
  if (llvm::Error e = expectWeights(c, 2, 1, c.operand(0).dtype))
    return e;
  if (llvm::Error e = expectPoints(c, 0, 1))
    return e;
  int64_t size = c.attrs.getInt("size");
  if (size < 0 || size >= kMost)
    return c.error("expects a size in [0, 2^31), got {0}", size);
  Type x = c.operand(0);
  x.dims[2] = size;
  return TypeList{x};
}

llvm::Expected<TypeList> inferWeights(const InferContext &c) {
  if (llvm::Error e = expectImage(c, 0))
    return e;
  if (llvm::Error e = expectImage(c, 1))
    return e;
  if (llvm::Error e = expectPlaces(c, 2, 0))
    return e;
  if (llvm::Error e = expectPoints(c, 0, 2))
    return e;
  Type want = c.operand(1);
  want.dims[2] = c.operand(0).dims[2];
  if (c.operand(0) != want)
    return c.error("expects 'g' and 'x' that differ in axis 2 alone, got '{0}' and '{1}'",
                   c.operand(0).str(), c.operand(1).str());
  auto type = parseDType(c.attrs.getString("type"));
  if (!type || !isWeightType(*type, want.dtype))
    return c.error("expects a type of weights, {0} or f32 beside 16 bits, got '{1}'",
                   dtypeName(want.dtype), c.attrs.getString("type"));
  return TypeList{c.operand(2).with(*type)};
}

// --- Gradients

ValueId weightsGrad(VjpContext &c, ValueId g, ValueId x, ValueId at, ValueId w) {
  return c.b.create("interpolate_weights", {g, x, at},
                    {{"type", dtypeName(c.type(w).dtype).str()}});
}

ValueList vjpInterpolate(VjpContext &c) {
  ValueId x = c.operand(0), at = c.operand(1), w = c.operand(2);
  ValueList out(3);
  if (c.wants(0))
    out[0] = c.b.create("interpolate_transpose", {c.grad(0), at, w}, {{"size", c.type(x).dims[2]}});
  if (c.wants(2))
    out[2] = weightsGrad(c, c.grad(0), x, at, w);
  return out;
}

ValueList vjpTranspose(VjpContext &c) { // grad(0) has x's type
  ValueId g = c.operand(0), at = c.operand(1), w = c.operand(2);
  ValueList out(3);
  if (c.wants(0))
    out[0] = c.b.create("interpolate", {c.grad(0), at, w});
  if (c.wants(2))
    out[2] = weightsGrad(c, g, c.grad(0), at, w);
  return out;
}

ValueList vjpWeights(VjpContext &c) { // grad(0) has w's type
  ValueId g = c.operand(0), x = c.operand(1), at = c.operand(2);
  ValueList out(3);
  if (c.wants(0))
    out[0] = c.b.create("interpolate", {x, at, c.grad(0)});
  if (c.wants(1))
    out[1] = c.b.create("interpolate_transpose", {g, at, c.grad(0)}, {{"size", c.type(x).dims[2]}});
  return out;
}

// --- Expansions: tensors [N, C, P, K, I] with an element for each tap of each point.

struct Taps {
  Builder &b;
  Dims dims, flat;       // [N, C, P, K, I] and [N, C, P K, I]
  DType type;            // the weights' type, in which products are computed
  ValueId exists, index; // [1 or N, 1, P K, 1]; [N, C, P K, I], 0 for taps that do not exist

  Taps(Builder &b, const Type &image, ValueId at, DType type, int64_t size) : b(b), type(type) {
    const Type places = b.type(at);
    Dims one{places.dims[0], 1, places.dims[1] * places.dims[2], 1};
    dims = {image.dims[0], image.dims[1], places.dims[1], places.dims[2], image.dims[3]};
    flat = {dims[0], dims[1], one[2], dims[4]};
    Type scalar(places.dtype, {});
    ValueId flatAt = b.reshape(at, one), zero = b.zeros(scalar);
    exists = b.create("and", {b.create("greater_equal", {flatAt, zero}),
                              b.create("less", {flatAt, b.full(scalar, double(size))})});
    index = b.broadcastTo(b.create("where", {exists, flatAt, zero}), flat);
  }
  ValueId existing(ValueId v) const { // [.., P K, ..], zero for taps that do not exist
    return b.create("where", {exists, v, b.zeros(Type(type, {}))});
  }
  ValueId weights(ValueId w) const { // [1 or N, 1, P, K, 1]
    const Dims &of = b.type(exists).dims;
    ValueId flatW = existing(b.reshape(w, of));
    return b.reshape(flatW, {of[0], 1, dims[2], dims[3], 1});
  }
  ValueId taken(ValueId x) const {
    ValueId all = b.create("gather_elements", {x, index}, {{"axis", int64_t(2)}});
    return b.reshape(b.cast(all, type), dims);
  }
  ValueId spread(ValueId g) const { // repeats the value of each point for all its taps
    return b.cast(b.reshape(g, {dims[0], dims[1], dims[2], 1, dims[4]}), type);
  }
};

ValueList expandInterpolate(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[0]);
  Taps taps(b, x, c.operands[1], b.type(c.operands[2]).dtype, x.dims[2]);
  if (x.dims[2] == 0)
    return {b.zeros(x.with({x.dims[0], x.dims[1], taps.dims[2], x.dims[3]}))};
  ValueId products = b.mul(taps.taken(c.operands[0]), taps.weights(c.operands[2]));
  return {b.cast(b.sum(products, {3}, /*keepDims=*/false), x.dtype)};
}

ValueList expandTranspose(ExpandContext &c) {
  Builder &b = c.b;
  Type x = b.type(c.operands[0]);
  x.dims[2] = c.attrs.getInt("size");
  Taps taps(b, x, c.operands[1], b.type(c.operands[2]).dtype, x.dims[2]);
  if (x.dims[2] == 0)
    return {b.zeros(x)};
  ValueId products = b.mul(taps.spread(c.operands[0]), taps.weights(c.operands[2]));
  ValueId sums = b.create("scatter_elements",
                          {b.zeros(x.with(taps.type)), taps.index, b.reshape(products, taps.flat)},
                          {{"axis", int64_t(2)}, {"reduction", std::string("add")}});
  return {b.cast(sums, x.dtype)};
}

ValueList expandWeights(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[1]), places = b.type(c.operands[2]);
  DType type = *parseDType(c.attrs.getString("type"));
  if (x.dims[2] == 0)
    return {b.zeros(places.with(type))};
  Taps taps(b, x, c.operands[2], type, x.dims[2]);
  ValueId products = b.mul(taps.spread(c.operands[0]), taps.taken(c.operands[1]));
  Ints summed{1, 4};
  if (places.dims[0] == 1)
    summed.insert(summed.begin(), 0);
  ValueId sums = b.reshape(b.sum(products, summed, /*keepDims=*/false), b.type(taps.exists).dims);
  return {b.reshape(taps.existing(sums), places.dims)};
}

// --- Cost: a multiply-add for each tap of each point.

Cost costOfForm(const OpCall &c, const Type &g, const Type &at) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  cost.bytes += double(c.results[0].bytes());
  cost.flops = 2 * double(g.elements()) * double(at.dims[2]);
  return cost;
}
Cost costInterpolate(const OpCall &c) { return costOfForm(c, c.results[0], c.operands[1]); }
Cost costTranspose(const OpCall &c) { return costOfForm(c, c.operands[0], c.operands[1]); }
Cost costWeights(const OpCall &c) { return costOfForm(c, c.operands[0], c.operands[2]); }

std::optional<int64_t> boundInterpolate(const OpCall &c, size_t operand) {
  return operand == 1 ? std::optional<int64_t>(c.operands[0].dims[2]) : std::nullopt;
}
std::optional<int64_t> boundTranspose(const OpCall &c, size_t operand) {
  return operand == 1 ? std::optional<int64_t>(c.attrs->getInt("size")) : std::nullopt;
}
std::optional<int64_t> boundWeights(const OpCall &c, size_t operand) {
  return operand == 2 ? std::optional<int64_t>(c.operands[1].dims[2]) : std::nullopt;
}

// The batch, and the axes of the image that places do not depend on.
Factors factorsOfImage(const OpCall &c) {
  Factors f = leadingFactors(c, 1, {0, 1, 2}, {0});
  uint32_t next = f.numFactors();
  for (size_t axis : {1, 3}) {
    if (c.results[0].dims[axis] == 1)
      continue;
    f.operands[0][axis].factor = f.results[0][axis].factor = next++;
  }
  return f;
}

} // namespace

void registerInterpolateOps(OpRegistry &r) {
  r.add(
      {{.name = "interpolate",
        .doc = "Weighted sums of elements along axis 2 of x [N, C, S, I]: sum over k of w[n, p, k] "
               "x[n, c, at[n, p, k], i]. Positions `at` and weights [N, P, K] may have batch size "
               "1, shared by the whole batch. A position outside [0, S) adds nothing.",
        .operands = "x at w",
        .results = "y",
        .infer = inferInterpolate,
        .vjp = vjpInterpolate,
        .expand = expandInterpolate,
        .cost = costInterpolate,
        .factors = factorsOfImage,
        .indexBound = boundInterpolate,
        .examples = {"interpolate(f64[2, 3, 5, 1], i64[2, 4, 3], f64[2, 4, 3])",
                     "interpolate(f64[2, 2, 5, 3], i64[1, 7, 2], f64[1, 7, 2])",
                     "interpolate(f64[1, 2, 4, 1], i32[1, 3, 1], f64[1, 3, 1])"}},
       {.name = "interpolate_transpose",
        .doc = "The transpose of interpolate: its gradient for x, of `size` elements along axis "
               "2, given that of its result.",
        .operands = "g at w",
        .results = "x",
        .attrs = {{"size", AttrKind::Int, {}, "the size of axis 2 of the result"}},
        .infer = inferTranspose,
        .vjp = vjpTranspose,
        .expand = expandTranspose,
        .cost = costTranspose,
        .factors = factorsOfImage,
        .indexBound = boundTranspose,
        .examples = {"interpolate_transpose(f64[2, 3, 4, 1], i64[2, 4, 3], f64[2, 4, 3]) {size = "
                     "5}",
                     "interpolate_transpose(f64[2, 2, 7, 3], i64[1, 7, 2], f64[1, 7, 2]) {size = "
                     "5}",
                     "interpolate_transpose(f64[1, 2, 3, 1], i32[1, 3, 1], f64[1, 3, 1]) {size = "
                     "4}"}},
       {.name = "interpolate_weights",
        .doc = "The gradient of interpolate for w, given that of its result and x.",
        .operands = "g x at",
        .results = "w",
        .attrs = {{"type", AttrKind::String, {}, "the element type of the weights"}},
        .infer = inferWeights,
        .vjp = vjpWeights,
        .expand = expandWeights,
        .cost = costWeights,
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, 1, {0, 1, 2}, {0});
            },
        .indexBound = boundWeights,
        .examples = {
            "interpolate_weights(f64[2, 3, 4, 1], f64[2, 3, 5, 1], i64[2, 4, 3]) {type = f64}",
            "interpolate_weights(f64[2, 2, 7, 3], f64[2, 2, 5, 3], i64[1, 7, 2]) {type = f64}",
            "interpolate_weights(f64[1, 2, 3, 1], f64[1, 2, 4, 1], i32[1, 3, 1]) {type = f64}"}}});
}

} // namespace isthmus
