// Ops that draw random numbers. The key of the generator is the run's seed and step and the
// attribute `stream`; the counter is the element's row-major index (kernels/element/philox.h). So a
// clone draws the same numbers. A chunk of a tensor draws those of the whole: element e has draw
// first + (e / run) * stride + e % run.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include <cmath>

namespace isthmus {
namespace {

// Draws are counted in 62 bits.
llvm::Error checkDraws(const InferContext &c, const Type &drawn) {
  constexpr int64_t kMost = int64_t(1) << 62;
  const int64_t first = c.attrs.getInt("first"), run = c.attrs.getInt("run"),
                stride = c.attrs.getInt("stride"), n = drawn.elements();
  if (first < 0 || first > kMost)
    return c.error("expects a first draw from 0 to 2^62, got {0}", first);
  if (run < 0 || (run > 0) != (stride > 0) || (run > 0 && stride < run))
    return c.error(
        "expects runs of one element or more, and a stride that is not smaller; got runs "
        "of {0} and a stride of {1}",
        run, stride);
  if (run > 0 && n > 0 && __int128((n - 1) / run) * stride + run > kMost - first)
    return c.error("expects draws up to 2^62; {0} elements in runs of {1} with a stride of {2} "
                   "from {3} on are beyond",
                   n, run, stride, first);
  return llvm::Error::success();
}

llvm::Expected<TypeList> inferDropout(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  double ratio = c.attrs.getFloat("ratio");
  if (!(ratio >= 0 && ratio < 1))
    return c.error("expects a ratio in [0, 1), got {0}", floatText(ratio));
  if (llvm::Error e = checkDraws(c, c.operand(0)))
    return e;
  return TypeList{c.operand(0)};
}

// Dropout is linear, so its gradient draws the same mask again, and no mask is stored.
ValueList vjpDropout(VjpContext &c) { return {c.b.create("dropout", {c.grad(0)}, c.attrs)}; }

// Every axis; of a chunk with runs, those whose chunks have no runs of runs: the outermost axis of
// a run, or an axis that shares out whole runs.
Factors factorsOfDraws(const OpCall &c) {
  const int64_t run = c.attrs->getInt("run");
  const Dims &dims = c.results[0].dims;
  Ints whole;
  int64_t before = 1;
  for (size_t axis = 0; axis < dims.size() && run > 0; before *= dims[axis++])
    if (const int64_t inner = strideOf(dims, axis);
        inner * dims[axis] != run && !(before == 1 && inner % run == 0))
      whole.push_back(int64_t(axis));
  return allButFactors(c, whole);
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
  const Type drawn(*type, c.attrs.getInts("dims"));
  if (llvm::Error e = checkDraws(c, drawn))
    return e;
  return TypeList{drawn};
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
const AttrDef kDims = {"dims", AttrKind::IntList, {}, "its dimensions", AxisRole::Sizes};
const AttrDef kFirst = {"first", AttrKind::Int, int64_t(0),
                        "the number of the first element's draw", AxisRole::First};
const AttrDef kRun = {"run", AttrKind::Int, int64_t(0),
                      "after so many elements, draws are left out; 0: never"};
const AttrDef kStride = {"stride", AttrKind::Int, int64_t(0),
                         "the draws from the beginning of one run to that of the next"};
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
                    kFirst,
                    kRun,
                    kStride},
          .traits = kNotACheckpoint | kDependsOnMode,
          .effect = Effect::Draws,
          .infer = inferDropout,
          .vjp = vjpDropout,
          .cost = costDropout,
          .inPlace = {{0, 0}},
          .factors = factorsOfDraws,
          .examples = {"dropout(f64[2, 7]) {stream = 1}",
                       "dropout(f64[3, 5]) {ratio = 0.1, stream = 2}",
                       "dropout(f64[2, 3]) {stream = 3, training = false}",
                       "dropout(f64[6, 4]) {stream = 5, first = 9}",
                       "dropout(f64[3, 2, 3]) {stream = 6, first = 3, run = 6, stride = 15}",
                       "dropout(f64[300]) {stream = 7, first = 1, run = 70, stride = 101}",
                       "dropout(f64[4]) {ratio = 0.0, stream = 4}"}},
         {.name = "uniform",
          .doc = "Numbers drawn evenly from [low, high).",
          .operands = "",
          .results = "y",
          .attrs = {kDims,
                    kType,
                    {"low", AttrKind::Float, 0.0, "the lower end, which may be drawn"},
                    {"high", AttrKind::Float, 1.0, "the upper end, which is not drawn"},
                    kStream,
                    kFirst,
                    kRun,
                    kStride},
          .effect = Effect::Draws,
          .infer = inferUniform,
          .differentiable = Differentiable::ZeroGradient,
          .cost = costDraw,
          .factors = factorsOfDraws,
          .examples = {"uniform() {dims = [3, 5], type = f64, stream = 1}",
                       "uniform() {dims = [7], type = f64, low = -0.5, high = 0.5, stream = 2}",
                       "uniform() {dims = [4, 3], type = f64, stream = 3, first = 2, run = 3, "
                       "stride = 5}"}},
         {.name = "normal",
          .doc = "Numbers drawn from the normal distribution.",
          .operands = "",
          .results = "y",
          .attrs = {kDims,
                    kType,
                    {"mean", AttrKind::Float, 0.0, "the mean"},
                    {"std", AttrKind::Float, 1.0, "the standard deviation"},
                    kStream,
                    kFirst,
                    kRun,
                    kStride},
          .effect = Effect::Draws,
          .infer = inferNormal,
          .differentiable = Differentiable::ZeroGradient,
          .cost = costNormal,
          .factors = factorsOfDraws,
          .examples = {"normal() {dims = [3, 5], type = f64, stream = 1}",
                       "normal() {dims = [7], type = f64, mean = 2.0, std = 0.5, stream = 2}",
                       "normal() {dims = [5], type = f64, stream = 3, first = 1}",
                       "normal() {dims = [4, 3], type = f64, stream = 4, first = 7, run = 3, "
                       "stride = 8}"}}});
}

} // namespace isthmus
