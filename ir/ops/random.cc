// Ops that draw random numbers. The key of the generator is the run's seed and step and the
// attribute `stream`; the counter is the element's row-major index (kernels/element/philox.h). So a
// clone draws the same numbers.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include <cmath>

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferDropout(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  double ratio = c.attrs.getFloat("ratio");
  if (!(ratio >= 0 && ratio < 1))
    return c.error("expects a ratio in [0, 1), got {0}", floatText(ratio));
  if (const int64_t first = c.attrs.getInt("first"); first < 0 || first % 4 != 0)
    return c.error("expects a first draw of 0, 4, 8, ..., got {0}", first);
  return TypeList{c.operand(0)};
}

// Dropout is linear, so its gradient draws the same mask again, and no mask is stored.
ValueList vjpDropout(VjpContext &c) { return {c.b.create("dropout", {c.grad(0)}, c.attrs)}; }

// The outermost axis, in chunks whose first element is the first of a block of four draws.
Factors factorsOfDropout(const OpCall &c) {
  Factors f = wholeFactors(c);
  const Dims &dims = c.results[0].dims;
  size_t axis = 0;
  while (axis < dims.size() && dims[axis] == 1)
    ++axis;
  if (axis == dims.size() || dims[axis] == 0)
    return f;
  const int64_t inner = c.results[0].elements() / dims[axis], block = inner % 4 == 0   ? 1
                                                                      : inner % 2 == 0 ? 2
                                                                                       : 4;
  if (dims[axis] % block == 0)
    f.operands[0][axis] = f.results[0][axis] = {0, block};
  return f;
}

// About three dozen integer operations make four draws.
constexpr double kFlopsPerDraw = 10;

Cost costDropout(const OpCall &c) {
  double n = double(c.results[0].elements());
  return {c.attrs->getBool("training") ? kFlopsPerDraw * n : 0, 2 * double(c.results[0].bytes())};
}

llvm::Expected<TypeList> inferDraw(const InferContext &c) {
  auto type = parseDType(c.attrs.getString("type"));
  if (!type || !isFloat(*type))
    return c.error("expects a floating-point type such as f32, got '{0}'",
                   c.attrs.getString("type"));
  return TypeList{Type(*type, c.attrs.getInts("dims"))};
}

llvm::Expected<TypeList> inferUniform(const InferContext &c) {
  double low = c.attrs.getFloat("low"), high = c.attrs.getFloat("high");
  if (!(low <= high) || std::isinf(high - low))
    return c.error("expects finite low <= high, got {0} and {1}", floatText(low), floatText(high));
  return inferDraw(c);
}

llvm::Expected<TypeList> inferNormal(const InferContext &c) {
  double mean = c.attrs.getFloat("mean"), std = c.attrs.getFloat("std");
  if (std::isinf(mean) || !(std >= 0) || std::isinf(std))
    return c.error("expects a finite mean and a finite std >= 0, got {0} and {1}", floatText(mean),
                   floatText(std));
  return inferDraw(c);
}

Cost costDraw(const OpCall &c) {
  return {kFlopsPerDraw * double(c.results[0].elements()), double(c.results[0].bytes())};
}
Cost costNormal(const OpCall &c) { // a logarithm, a root and a sine for each pair of elements
  return {2 * kFlopsPerDraw * double(c.results[0].elements()), double(c.results[0].bytes())};
}

const AttrDef kStream = {
    "stream", AttrKind::Int, {}, "the number of the run's random stream to draw from"};
const AttrDef kDims = {"dims", AttrKind::IntList, {}, "its dimensions"};
const AttrDef kType = {"type", AttrKind::String, std::string("f32"), "its element type"};

} // namespace

void registerRandomOps(OpRegistry &r) {
  r.add({{.name = "dropout",
          .doc =
              "Each element is dropped with probability `ratio`, the others are divided by 1 - "
              "ratio. Outside "
              "training the operand itself. The mask is drawn again in the gradient, never stored.",
          .operands = "x",
          .results = "y",
          .attrs = {{"ratio", AttrKind::Float, 0.5, "the share that is dropped, in [0, 1)"},
                    kStream,
                    {"training", AttrKind::Bool, true, "whether anything is dropped"},
                    {"first", AttrKind::Int, int64_t(0),
                     "the number of the first element's draw, a multiple of 4: a part of a tensor "
                     "has the whole's mask",
                     AxisRole::First}},
          .traits = kNotACheckpoint | kDependsOnMode,
          .effect = Effect::Draws,
          .infer = inferDropout,
          .vjp = vjpDropout,
          .cost = costDropout,
          .inPlace = {{0, 0}},
          .factors = factorsOfDropout,
          .examples = {"dropout(f64[2, 7]) {stream = 1}",
                       "dropout(f64[3, 5]) {ratio = 0.1, stream = 2}",
                       "dropout(f64[2, 3]) {stream = 3, training = false}",
                       "dropout(f64[6, 4]) {stream = 5, first = 8}",
                       "dropout(f64[4]) {ratio = 0.0, stream = 4}"}},
         {.name = "uniform",
          .doc = "Numbers drawn evenly from [low, high).",
          .operands = "",
          .results = "y",
          .attrs = {kDims,
                    kType,
                    {"low", AttrKind::Float, 0.0, "the lower end, which may be drawn"},
                    {"high", AttrKind::Float, 1.0, "the upper end, which is not drawn"},
                    kStream},
          .effect = Effect::Draws,
          .infer = inferUniform,
          .differentiable = Differentiable::ZeroGradient,
          .cost = costDraw,
          .examples = {"uniform() {dims = [3, 5], type = f64, stream = 1}",
                       "uniform() {dims = [7], type = f64, low = -0.5, high = 0.5, stream = 2}"}},
         {.name = "normal",
          .doc = "Numbers drawn from the normal distribution.",
          .operands = "",
          .results = "y",
          .attrs = {kDims,
                    kType,
                    {"mean", AttrKind::Float, 0.0, "the mean"},
                    {"std", AttrKind::Float, 1.0, "the standard deviation"},
                    kStream},
          .effect = Effect::Draws,
          .infer = inferNormal,
          .differentiable = Differentiable::ZeroGradient,
          .cost = costNormal,
          .examples = {"normal() {dims = [3, 5], type = f64, stream = 1}",
                       "normal() {dims = [7], type = f64, mean = 2.0, std = 0.5, stream = 2}"}}});
}

} // namespace isthmus
