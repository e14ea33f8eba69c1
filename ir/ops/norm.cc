// Normalisations. Statistics are results, so that the backward pass can read them, and separate
// nodes update running averages. For 16-bit operands statistics are f32.
//
// The backward rows take the statistics as operands. Their expansions treat them as independent
// values; gradients of the statistics reach x through the forward row's gradient rule. So second
// derivatives are complete.

#include "ir/ops/norm.h"
#include "ir/factors.h"

#include "ir/ops/averages.h"
#include "ir/ops/channels.h"

namespace isthmus {
namespace {

// --- Shape rules

// Expects that operands from `first` on are vectors with one element per channel, all of x's type
// or of that of its statistics.
llvm::Error expectChannels(const InferContext &c, const Type &x, size_t first) {
  for (size_t i = first; i < c.operands.size(); ++i) {
    const Type &t = c.operand(i);
    if (t.rank() != 1 || t.dims[0] != x.dims[1])
      return c.error("expects '{0}' of {1} elements, one per channel, got '{2}'",
                     c.op.operandNames[i], x.dims[1], t.str());
    if (t.dtype != x.dtype && t.dtype != statisticsType(x.dtype))
      return c.error("expects '{0}' of {1} or {2}, got '{3}'", c.op.operandNames[i],
                     dtypeName(x.dtype), dtypeName(statisticsType(x.dtype)), t.str());
    if (t.dtype != c.operand(first).dtype)
      return c.error("expects '{0}' and '{1}' of one type, got '{2}' and '{3}'",
                     c.op.operandNames[first], c.op.operandNames[i], c.operand(first).str(),
                     t.str());
  }
  return llvm::Error::success();
}

llvm::Error expectMomentum(const InferContext &c) {
  double momentum = c.attrs.getFloat("momentum");
  if (momentum >= 0 && momentum <= 1)
    return llvm::Error::success();
  return c.error("expects a momentum in [0, 1], got {0}", floatText(momentum));
}

// The shape rule for a tensor with channels on axis 1 and per-channel vectors. Returns the types of
// the tensor, the mean and the variance.
llvm::Expected<TypeList> inferNormalised(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectRank(0, 2, 64))
    return e;
  if (llvm::Error e = expectChannels(c, c.operand(0), 1))
    return e;
  if (llvm::Error e = expectEpsilon(c))
    return e;
  return TypeList{c.operand(0), c.operand(3), c.operand(4)};
}

llvm::Expected<TypeList> inferBatchNormFirst(const InferContext &c) {
  if (llvm::Error e = expectMomentum(c))
    return e;
  return inferNormalised(c);
}

llvm::Expected<TypeList> inferBatchNormGradFirst(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  if (llvm::Error e = c.expectRank(1, 2, 64))
    return e;
  if (llvm::Error e = expectChannels(c, c.operand(1), 2))
    return e;
  if (llvm::Error e = expectEpsilon(c))
    return e;
  return TypeList{c.operand(1), c.operand(2), c.operand(2)};
}

llvm::Expected<TypeList> inferBatchNorm(const InferContext &c) {
  return inferEitherWay(c, inferBatchNormFirst);
}
llvm::Expected<TypeList> inferBatchNormInverse(const InferContext &c) {
  return inferEitherWay(c, [](const InferContext &first) -> llvm::Expected<TypeList> {
    auto like = inferNormalised(first);
    return like ? TypeList{first.operand(0)} : std::move(like);
  });
}
llvm::Expected<TypeList> inferBatchNormGrad(const InferContext &c) {
  return inferEitherWay(c, inferBatchNormGradFirst);
}

llvm::Expected<TypeList> inferLayerNorm(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = expectEpsilon(c))
    return e;
  auto dims = layerStatistics(c, c.operand(0), 1);
  if (!dims)
    return dims.takeError();
  if (c.has(2))
    if (llvm::Error e = c.expectSame(1, 2))
      return e;
  Type statistics(statisticsType(c.operand(0).dtype), *dims);
  return TypeList{c.operand(0), statistics, statistics};
}

llvm::Expected<TypeList> inferLayerNormGrad(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  auto dims = layerStatistics(c, c.operand(1), 2);
  if (!dims)
    return dims.takeError();
  Type statistics(statisticsType(c.operand(1).dtype), *dims);
  for (size_t i : {3, 4})
    if (c.operand(i) != statistics)
      return c.error("expects '{0}' of type '{1}', got '{2}'", c.op.operandNames[i],
                     statistics.str(), c.operand(i).str());
  return TypeList{c.operand(1), c.operand(2), c.operand(2)};
}

llvm::Expected<TypeList> inferRunningAverage(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  if (llvm::Error e = expectMomentum(c))
    return e;
  return TypeList{c.operand(0)};
}

// Statistics are over all axes but that of the channels.
Factors factorsOfChannels(const OpCall &c) {
  Factors f = wholeFactors(c);
  const size_t rank = c.operands[0].dims.size(),
               axis = rank > 2 ? size_t(channelAxis(*c.attrs, int64_t(rank))) : 1;
  auto name = [&](Factors::Axes &axes) { axes[axes.size() == 1 ? 0 : axis].factor = 0; };
  llvm::for_each(f.operands, name);
  llvm::for_each(f.results, name);
  return f;
}

// With given statistics each element is normalised by itself. The results for the statistics are
// the given ones.
Factors factorsOfGivenChannels(const OpCall &c) {
  Factors f = wholeFactors(c);
  const size_t rank = c.results[0].dims.size(),
               channel = rank > 2 ? size_t(channelAxis(*c.attrs, int64_t(rank))) : 1;
  auto name = [&](Factors::Axes &axes) {
    for (size_t i = 0; i < axes.size(); ++i)
      axes[i].factor = uint32_t(axes.size() == 1 ? channel : i);
  };
  llvm::for_each(f.operands, name);
  llvm::for_each(f.results, name);
  for (uint32_t r = 1; r < c.results.size(); ++r)
    f.repeated.push_back(r);
  return f;
}

Factors factorsOfBatchNorm(const OpCall &c) {
  return c.attrs->getBool("training") ? factorsOfChannels(c) : factorsOfGivenChannels(c);
}

// The gradients of scale and bias are sums over the examples; and over the other axes, which stay
// whole, in the order of the kernel.
Factors factorsOfBatchNormGrad(const OpCall &c) {
  Factors f = factorsOfChannels(c);
  if (!c.attrs->getBool("training"))
    for (Factors::Axes *axes : {&f.operands[0], &f.operands[1], &f.results[0]})
      (*axes)[0].factor = 1;
  return f;
}

// --- Batch norm's gradients. Sums run over all axes but the channel axis; [C] vectors are reshaped
// to [1, C, 1, ...], or to [1, ..., C].

struct Channels {
  Builder &b;
  Type x; // with the element type of the computation, which is that of the vectors
  int64_t axis;
  double count;
  Ints axes;

  Channels(Builder &b, const Type &x, DType in, const Attrs &attrs)
      : b(b), x(x.with(in)), axis(channelAxis(attrs, x.rank())), count(1) {
    for (int64_t a = 0; a < x.rank(); ++a)
      if (a != axis) {
        axes.push_back(a);
        count *= double(x.dims[a]);
      }
  }
  ValueId spread(ValueId v) const {
    Dims dims(x.rank(), 1);
    dims[axis] = x.dims[axis];
    return b.reshape(v, dims);
  }
  ValueId sum(ValueId v) const { return b.sum(v, axes, /*keepDims=*/false); }
  ValueId rstd(ValueId var, double epsilon) const {
    return b.create("rsqrt", {b.shift(var, epsilon)});
  }
};

// The gradients of batch_mean and batch_var flow to x (training), or to the given statistics that
// these results repeat.
void addStatisticsGrads(VjpContext &c, ValueList &out) {
  Builder &b = c.b;
  if (!c.attrs.getBool("training")) {
    for (size_t i : {1, 2})
      if (c.hasGrad(i) && c.wants(i + 2))
        out[i + 2] = out[i + 2] ? b.add(out[i + 2], c.grad(i)) : c.grad(i);
    return;
  }
  if (!c.wants(0))
    return;
  const Type &x = c.type(c.operand(0));
  Channels ch(b, x, c.type(c.result(1)).dtype, c.attrs);
  auto add = [&](ValueId more) {
    more = b.cast(b.broadcastTo(more, x.dims), x.dtype);
    out[0] = out[0] ? b.add(out[0], more) : more;
  };
  if (c.hasGrad(1))
    add(ch.spread(b.scale(c.grad(1), 1 / ch.count)));
  if (c.hasGrad(2)) { // d var / dx = 2 (x - mean) / count
    ValueId centred = b.sub(b.cast(c.operand(0), ch.x.dtype), ch.spread(c.result(1)));
    add(b.mul(centred, ch.spread(b.scale(c.grad(2), 2 / ch.count))));
  }
}

ValueList vjpBatchNorm(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(5);
  bool training = c.attrs.getBool("training");
  bool wanted = c.wants(0) || c.wants(1) || c.wants(2) || (!training && (c.wants(3) || c.wants(4)));
  if (c.hasGrad(0) && wanted) {
    ValueId mean = training ? c.result(1) : c.operand(3),
            var = training ? c.result(2) : c.operand(4);
    Attrs attrs = c.attrs;
    attrs.erase("momentum"); // a gradient updates no averages
    NodeId grad =
        b.createNode("batch_norm_grad", {c.grad(0), c.operand(0), c.operand(1), mean, var}, attrs);
    for (unsigned i = 0; i < 3; ++i)
      if (c.wants(i))
        out[i] = b.graph().node(grad).result(i);
    // y = (x - mean) rstd scale + bias with given mean and var:
    // dmean = -dbias scale rstd, dvar = -1/2 dscale scale rstd^2.
    if (!training && (c.wants(3) || c.wants(4))) {
      ValueId rstd = b.create("rsqrt", {b.shift(var, c.attrs.getFloat("epsilon"))});
      ValueId slope = b.mul(c.operand(1), rstd);
      if (c.wants(3))
        out[3] = b.neg(b.mul(b.graph().node(grad).result(2), slope));
      if (c.wants(4))
        out[4] = b.scale(b.mul(b.graph().node(grad).result(1), b.mul(slope, rstd)), -0.5);
    }
  }
  addStatisticsGrads(c, out);
  return out;
}

ValueList expandBatchNormGrad(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[1]);
  Channels ch(b, x, b.type(c.operands[2]).dtype, c.attrs);
  ValueId g = b.cast(c.operands[0], ch.x.dtype), v = b.cast(c.operands[1], ch.x.dtype),
          scale = c.operands[2];
  ValueId rstd = ch.rstd(c.operands[4], c.attrs.getFloat("epsilon"));
  ValueId normal = b.mul(b.sub(v, ch.spread(c.operands[3])), ch.spread(rstd));
  ValueId dBias = ch.sum(g), dScale = ch.sum(b.mul(g, normal));
  ValueId inner = g;
  if (c.attrs.getBool("training")) {
    inner = b.sub(inner, ch.spread(b.scale(dBias, 1 / ch.count)));
    inner = b.sub(inner, b.mul(normal, ch.spread(b.scale(dScale, 1 / ch.count))));
  }
  ValueId dx = b.mul(inner, ch.spread(b.mul(scale, rstd)));
  return {b.cast(dx, x.dtype), dScale, dBias};
}

// --- Inverses. A channel whose scale is zero cannot be rebuilt.

ValueId inverseBatchNorm(InverseContext &c, size_t wanted) {
  if (wanted != 0)
    return ValueId();
  ValueId mean = c.results[1], var = c.results[2];
  if (!c.attrs.getBool("training")) { // the statistics are operands
    mean = c.operands[3];
    var = c.operands[4];
  }
  Attrs attrs = c.attrs;
  attrs.erase("momentum");
  attrs.erase("training");
  return c.b.create("batch_norm_inverse", {c.results[0], c.operands[1], c.operands[2], mean, var},
                    attrs);
}

ValueList
expandBatchNormInverse(ExpandContext &c) { // (y - bias) / scale sqrt(var + epsilon) + mean
  Builder &b = c.b;
  const Type y = b.type(c.operands[0]);
  Channels ch(b, y, b.type(c.operands[1]).dtype, c.attrs);
  ValueId deviation = b.create("sqrt", {b.shift(c.operands[4], c.attrs.getFloat("epsilon"))});
  ValueId centred = b.sub(b.cast(c.operands[0], ch.x.dtype), ch.spread(c.operands[2]));
  ValueId x =
      b.add(b.mul(centred, ch.spread(b.div(deviation, c.operands[1]))), ch.spread(c.operands[3]));
  return {b.cast(x, y.dtype)};
}

ValueId inverseLayerNorm(InverseContext &c, size_t wanted) {
  if (wanted != 0)
    return ValueId();
  Builder &b = c.b;
  Layer layer(b, c.want, c.attrs.getInt("axis"));
  ValueId x = layer.wide(c.results[0]);
  if (c.operands.size() > 2)
    x = b.sub(x, layer.wide(c.operands[2]));
  x = b.div(b.div(x, layer.wide(c.operands[1])), c.results[2]);
  return b.cast(b.add(x, c.results[1]), c.want.dtype);
}

// --- Layer norm's gradients

ValueList vjpLayerNorm(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(c.numOperands());
  if (c.hasGrad(0)) {
    NodeId grad = b.createNode("layer_norm_grad",
                               {c.grad(0), c.operand(0), c.operand(1), c.result(1), c.result(2)},
                               {{"axis", c.attrs.getInt("axis")}});
    for (unsigned i = 0; i < out.size(); ++i)
      if (c.wants(i))
        out[i] = b.graph().node(grad).result(i);
  }
  if (!c.wants(0))
    return out;
  const Type &x = c.type(c.operand(0));
  Layer layer(b, x, c.attrs.getInt("axis"));
  auto add = [&](ValueId more) {
    more = b.cast(b.broadcastTo(more, x.dims), x.dtype);
    out[0] = out[0] ? b.add(out[0], more) : more;
  };
  if (c.hasGrad(1))
    add(b.scale(c.grad(1), 1 / layer.count));
  if (c.hasGrad(2)) { // d rstd / dx = -rstd^3 (x - mean) / count
    ValueId rstd = c.result(2), centred = b.sub(layer.wide(c.operand(0)), c.result(1));
    ValueId slope = b.scale(b.mul(rstd, b.mul(rstd, rstd)), -1 / layer.count);
    add(b.mul(centred, b.mul(c.grad(2), slope)));
  }
  return out;
}

ValueList expandLayerNormGrad(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[1]);
  DType scaleType = b.type(c.operands[2]).dtype;
  Layer layer(b, x, c.attrs.getInt("axis"));
  ValueId g = layer.wide(c.operands[0]), scale = layer.wide(c.operands[2]), rstd = c.operands[4];
  ValueId normal = b.mul(b.sub(layer.wide(c.operands[1]), c.operands[3]), rstd);
  ValueId scaled = b.mul(g, scale), gNormal = b.mul(g, normal);
  ValueId inner = b.sub(scaled, layer.mean(scaled));
  inner = b.sub(inner, b.mul(normal, layer.mean(b.mul(scaled, normal))));
  return {b.cast(b.mul(rstd, inner), x.dtype), b.cast(layer.total(gNormal), scaleType),
          b.cast(layer.total(g), scaleType)};
}

ValueList vjpRunningAverage(VjpContext &c) {
  double m = c.attrs.getFloat("momentum");
  return {c.wants(0) ? c.b.scale(c.grad(0), m) : ValueId(),
          c.wants(1) ? c.b.scale(c.grad(0), 1 - m) : ValueId()};
}

Cost costForward(const OpCall &c) { return costNorm(c, 0, 6); }
Cost costBackward(const OpCall &c) { return costNorm(c, 1, 10); } // g too is read twice
Cost costInverse(const OpCall &c) { // x is read once, because the statistics are given
  Cost cost = costNorm(c, 0, 3);
  cost.bytes -= double(c.operands[0].bytes());
  return cost;
}

// --- Rows

const AttrDef kEpsilon = {"epsilon", AttrKind::Float, 1e-5, "the constant added to the variance"};
const AttrDef kTraining = {"training", AttrKind::Bool, true,
                           "whether to use the statistics of the batch; if not, the given ones"};
const AttrDef kMomentum = {"momentum", AttrKind::Float, 0.9,
                           "the share of the old average that stays"};
const AttrDef kAxis = {"axis", AttrKind::Int, int64_t(-1),
                       "the first of the axes normalised together"};

constexpr AveragedStatistic kBatchStatistics[] = {{3, 1}, {4, 2}};

} // namespace

llvm::ArrayRef<AveragedStatistic> averagedStatistics(const OpDef &op) {
  return op.name == "batch_norm" ? llvm::makeArrayRef(kBatchStatistics) : llvm::None;
}

void registerNormOps(OpRegistry &r) {
  r.add(
      {{.name = "batch_norm",
        .doc = "x minus the mean, divided by the standard deviation, of its channel (axis 1); "
               "times scale, plus bias. Also gives the mean and the population variance that it "
               "used. `momentum` is the share of the old running averages that stays, when an "
               "inference graph is made to train.",
        .operands = "x scale bias mean var",
        .results = "y batch_mean batch_var",
        .attrs = {kEpsilon, kTraining, kMomentum, channelsLastAttr()},
        .traits = kNotACheckpoint | kDependsOnMode,
        .infer = inferBatchNorm,
        .vjp = vjpBatchNorm,
        .inverse = inverseBatchNorm,
        .inverseHolds = scaleIsNeverZero,
        .inverseError = 2e-6,
        .cost = costForward,
        .inPlace = {{0, 0}},
        .factors = factorsOfBatchNorm,
        .examples = {"batch_norm(f64[3, 2, 2, 3], f64[2], f64[2], f64[2], f64[2])",
                     "batch_norm(f64[4, 3], f64[3], f64[3], f64[3], f64[3]) {epsilon = 0.1}",
                     "batch_norm(f64[2, 3, 4], f64[3], f64[3], f64[3], f64[3]) {training = false}",
                     "batch_norm(f64[3, 2, 3, 2], f64[2], f64[2], f64[2], f64[2]) {channels_last = "
                     "true}",
                     "batch_norm(f64[2, 4, 3], f64[3], f64[3], f64[3], f64[3]) {channels_last = "
                     "true, training = false}"},
        .low = 0.5,
        .high = 2},
       {.name = "batch_norm_inverse",
        .doc = "The operand x of batch_norm, from its result and the mean and variance that it "
               "used: (y - bias) / scale, times the standard deviation, plus the mean.",
        .operands = "y scale bias mean var",
        .results = "x",
        .attrs = {kEpsilon, channelsLastAttr()},
        .traits = kNotACheckpoint,
        .infer = inferBatchNormInverse,
        .expand = expandBatchNormInverse,
        .cost = costInverse,
        .inPlace = {{0, 0}},
        .factors = factorsOfGivenChannels,
        .examples = {"batch_norm_inverse(f64[3, 2, 2, 3], f64[2], f64[2], f64[2], f64[2])",
                     "batch_norm_inverse(f64[4, 3], f64[3], f64[3], f64[3], f64[3]) {epsilon = "
                     "0.1}",
                     "batch_norm_inverse(f64[3, 2, 3, 2], f64[2], f64[2], f64[2], f64[2]) "
                     "{channels_last = true}"},
        .low = 0.5,
        .high = 2},
       {.name = "batch_norm_grad",
        .doc = "The gradients of batch_norm, from the statistics that it used.",
        .operands = "g x scale mean var",
        .results = "dx dscale dbias",
        .attrs = {kEpsilon, kTraining, channelsLastAttr()},
        .traits = kNotACheckpoint | kDependsOnMode,
        .infer = inferBatchNormGrad,
        .expand = expandBatchNormGrad,
        .cost = costBackward,
        .inPlace = {{0, 0}, {0, 1}},
        .factors = factorsOfBatchNormGrad,
        .examples =
            {"batch_norm_grad(f64[3, 2, 2, 3], f64[3, 2, 2, 3], f64[2], f64[2], f64[2])",
             "batch_norm_grad(f64[4, 3], f64[4, 3], f64[3], f64[3], f64[3]) {training = false}",
             "batch_norm_grad(f64[3, 2, 3, 2], f64[3, 2, 3, 2], f64[2], f64[2], f64[2]) "
             "{channels_last = true}"},
        .low = 0.5,
        .high = 2},
       {.name = "running_average",
        .doc = "momentum * old + (1 - momentum) * now.",
        .operands = "old now",
        .results = "y",
        .attrs = {kMomentum},
        .traits = kElementwise,
        .infer = inferRunningAverage,
        .vjp = vjpRunningAverage,
        .inPlace = {{0, 0}, {0, 1}},
        .examples = {"running_average(f64[5], f64[5]) {momentum = 0.75}"}},
       {.name = "layer_norm",
        .doc = "x minus its mean, divided by its standard deviation, both over the axes from "
               "`axis` on; times scale, plus an optional bias. Also gives the mean and the "
               "reciprocal of the standard deviation.",
        .operands = "x scale bias?",
        .results = "y mean rstd",
        .attrs = {kAxis, kEpsilon},
        .infer = inferLayerNorm,
        .vjp = vjpLayerNorm,
        .inverse = inverseLayerNorm,
        .inverseHolds = scaleIsNeverZero,
        .inverseError = 4e-6,
        .cost = costForward,
        .inPlace = {{0, 0}},
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, outerAxes(c, 0), {0}, {0, 1, 2});
            },
        .examples = {"layer_norm(f64[2, 3, 4], f64[4], f64[4])", "layer_norm(f64[3, 5], f64[5])",
                     "layer_norm(f64[2, 3, 2], f64[3, 2], f64[3, 2]) {axis = 1, epsilon = 0.01}",
                     "layer_norm(f64[6], f64[6], f64[6]) {axis = 0}"}},
       {.name = "layer_norm_grad",
        .doc = "The gradients of layer_norm, from its mean and rstd.",
        .operands = "g x scale mean rstd",
        .results = "dx dscale dbias",
        .attrs = {kAxis},
        .infer = inferLayerNormGrad,
        .expand = expandLayerNormGrad,
        .cost = costBackward,
        .inPlace = {{0, 0}, {0, 1}},
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, outerAxes(c, 1), {0, 1, 3, 4}, {0});
            },
        .examples = {
            "layer_norm_grad(f64[2, 3, 4], f64[2, 3, 4], f64[4], f64[2, 3, 1], f64[2, 3, 1])",
            "layer_norm_grad(f64[2, 3, 2], f64[2, 3, 2], f64[3, 2], f64[2, 1, 1], f64[2, 1, 1]) "
            "{axis = 1}",
            "layer_norm_grad(f64[6], f64[6], f64[6], f64[1], f64[1]) {axis = 0}"}}});
  addRmsNorm(r);
  addGroupNorm(r);
  addLrn(r);
  addMicroNorm(r);
}

} // namespace isthmus
