// Batch norm whose statistics are those of parts of the batch, as a step in micro-batches has them
// (torchgpipe's deferred batch norm: Kim et al., 2020, section 2.3).
//
// Statistics of all parts are results, one row for each, so that a chunk of the batch has its own
// rows. Their means and variances give those of the whole batch (passes/differentiate/micro_norms).

#include "ir/factors.h"
#include "ir/ops/channels.h"
#include "ir/ops/norm.h"
#include "ir/parts.h"

namespace isthmus {
namespace {

llvm::Error expectParts(const InferContext &c, const Type &x) {
  const int64_t parts = c.attrs.getInt("parts");
  if (parts >= 1 && (parts <= x.dims[0] || x.dims[0] == 0))
    return llvm::Error::success();
  return c.error("expects from 1 to {0} parts of the examples of '{1}', got {2}", x.dims[0],
                 x.str(), parts);
}

// Expects operand `first`, and those behind it, to have an element for each channel, or, from
// `rows` on, a row of these for each part.
llvm::Error expectVectors(const InferContext &c, const Type &x, size_t first, size_t rows) {
  for (size_t i = first; i < c.operands.size(); ++i) {
    const Type &t = c.operand(i);
    Dims dims{x.dims[1]};
    if (i >= rows)
      dims.insert(dims.begin(), c.attrs.getInt("parts"));
    const Type want(i >= rows ? statisticsType(x.dtype) : c.operand(first).dtype, dims);
    if (t != want)
      return c.error("expects '{0}' of type '{1}', got '{2}'", c.op.operandNames[i], want.str(),
                     t.str());
  }
  const DType t = c.operand(first).dtype;
  if (t != x.dtype && t != statisticsType(x.dtype))
    return c.error("expects '{0}' of {1} or {2}, got '{3}'", c.op.operandNames[first],
                   dtypeName(x.dtype), dtypeName(statisticsType(x.dtype)), c.operand(first).str());
  return llvm::Error::success();
}

llvm::Expected<TypeList> inferFirst(const InferContext &c, size_t x, size_t rows) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectRank(x, 2, 64))
    return e;
  const Type &t = c.operand(x);
  if (llvm::Error e = expectParts(c, t))
    return e;
  if (llvm::Error e = expectVectors(c, t, x + 1, rows))
    return e;
  if (llvm::Error e = expectEpsilon(c))
    return e;
  const Type row(x == 0 ? statisticsType(t.dtype) : c.operand(x + 1).dtype,
                 {c.attrs.getInt("parts"), t.dims[1]});
  return TypeList{t, row, row};
}

llvm::Expected<TypeList> inferForward(const InferContext &c) {
  return inferEitherWay(c, [](const InferContext &f) { return inferFirst(f, 0, SIZE_MAX); });
}
llvm::Expected<TypeList> inferBackward(const InferContext &c) {
  return inferEitherWay(c, [](const InferContext &f) -> llvm::Expected<TypeList> {
    if (llvm::Error e = f.expectSame(0, 1))
      return e;
    return inferFirst(f, 1, 3);
  });
}

// Examples of one part stay together; a row of statistics goes with each part.
Factors factorsOfParts(const OpCall &c) {
  Factors f = wholeFactors(c);
  const Type &x = c.results[0];
  const int64_t parts = c.attrs->getInt("parts");
  const bool isEven = x.dims[0] % parts == 0;
  const size_t rank = x.dims.size(),
               channel = rank > 2 ? size_t(channelAxis(*c.attrs, int64_t(rank))) : 1;
  auto name = [&](Factors::Axes &axes, const Type &t) {
    if (t == x) {
      axes[0] = {0, isEven ? x.dims[0] / parts : 1};
      axes[channel].factor = 1;
    } else {
      axes[axes.size() - 1].factor = 1;
      if (axes.size() == 2)
        axes[0] = {0, 1, !isEven};
    }
  };
  // A tensor of the statistics' own size is told apart by its place.
  for (size_t i = 0; i < f.operands.size(); ++i)
    name(f.operands[i], c.operands[i]);
  for (size_t i = 0; i < f.results.size(); ++i)
    name(f.results[i], c.results[i]);
  return f;
}

// Tensors as [parts, examples of a part, ...], to build gradients; rows of statistics spread over
// all but the parts and the channels. The parts are equal.
struct Parts {
  Builder &b;
  Type x; // with the element type of the computation
  int64_t parts, channel;
  double count;
  Dims cut; // x's, with the parts as an axis of their own
  Ints axes;

  Parts(Builder &b, const Type &type, DType in, const Attrs &attrs)
      : b(b), x(type.with(in)), parts(attrs.getInt("parts")),
        channel(x.rank() > 2 ? channelAxis(attrs, x.rank()) : 1) {
    cut.assign(x.dims.begin(), x.dims.end());
    cut[0] /= parts;
    cut.insert(cut.begin(), parts);
    count = 1;
    for (int64_t a = 1; a <= x.rank(); ++a)
      if (a != channel + 1) {
        axes.push_back(a);
        count *= double(cut[size_t(a)]);
      }
  }
  ValueId divided(ValueId v) const { return b.reshape(b.cast(v, x.dtype), cut); }
  ValueId whole(ValueId v, DType as) const { return b.cast(b.reshape(v, x.dims), as); }
  ValueId spread(ValueId rows) const { // also of a vector that all parts share
    Dims dims(cut.size(), 1);
    if (b.type(rows).rank() == 2)
      dims[0] = parts;
    dims[size_t(channel) + 1] = x.dims[size_t(channel)];
    return b.reshape(b.cast(rows, x.dtype), dims);
  }
  ValueId rows(ValueId v) const { return b.sum(v, axes, /*keepDims=*/false); }
};

// What `ofEqualParts(operands, attributes)` builds of operands that have the examples, or a row for
// each part, on axis 0: also for parts that are not equal, one by one, which are then put together.
template <typename Build>
ValueList ofAnyParts(Builder &b, const ValueList &operands, const Attrs &attrs, int64_t examples,
                     Build ofEqualParts) {
  const int64_t parts = attrs.getInt("parts");
  if (examples % parts == 0)
    return ofEqualParts(operands, attrs);
  Attrs one = attrs;
  one.set("parts", int64_t(1));
  std::vector<ValueList> made; // by result
  for (int64_t k = 0; k < parts; ++k) {
    ValueList own;
    for (ValueId v : operands) {
      if (!v || b.type(v).rank() == 1) { // all parts share it
        own.push_back(v);
        continue;
      }
      const Dims &dims = b.type(v).dims;
      Ints starts(dims.size(), 0), limits(dims.begin(), dims.end());
      starts[0] = beginOfPart(dims[0], parts, k);
      limits[0] = beginOfPart(dims[0], parts, k + 1);
      own.push_back(b.create("slice", {v}, {{"starts", starts}, {"limits", limits}}));
    }
    const ValueList results = ofEqualParts(own, one);
    made.resize(results.size());
    for (size_t r = 0; r < results.size(); ++r)
      made[r].push_back(results[r]);
  }
  ValueList out;
  for (const ValueList &each : made)
    out.push_back(b.create("concat", each, {{"axis", int64_t(0)}}));
  return out;
}

// The gradient of x through the statistics, from x, the means, and the gradients of means and
// variances, of which one may be missing.
ValueId gradOfStatistics(Builder &b, ValueId v, ValueId means, ValueId ofMeans, ValueId ofVars,
                         const Attrs &attrs) {
  const Type x = b.type(v);
  const Parts p(b, x, b.type(means).dtype, attrs);
  ValueId sum;
  auto add = [&](ValueId more) {
    more = p.whole(b.broadcastTo(more, p.cut), x.dtype);
    sum = sum ? b.add(sum, more) : more;
  };
  if (ofMeans)
    add(p.spread(b.scale(ofMeans, 1 / p.count)));
  if (ofVars) { // d var / dx = 2 (x - mean) / count
    const ValueId centred = b.sub(p.divided(v), p.spread(means));
    add(b.mul(centred, p.spread(b.scale(ofVars, 2 / p.count))));
  }
  return sum;
}

ValueList vjpForward(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(3);
  if (c.hasGrad(0) && (c.wants(0) || c.wants(1) || c.wants(2))) {
    const NodeId grad =
        b.createNode("batch_norm_parts_grad",
                     {c.grad(0), c.operand(0), c.operand(1), c.result(1), c.result(2)}, c.attrs);
    if (c.wants(0))
      out[0] = b.graph().node(grad).result(0);
    for (unsigned i : {1, 2})
      if (c.wants(i))
        out[i] = b.sum(b.graph().node(grad).result(i), {0}, /*keepDims=*/false);
  }
  if (!c.wants(0) || !(c.hasGrad(1) || c.hasGrad(2)))
    return out;
  const ValueList operands{c.operand(0), c.result(1), c.hasGrad(1) ? c.grad(1) : ValueId(),
                           c.hasGrad(2) ? c.grad(2) : ValueId()};
  const ValueId more =
      ofAnyParts(b, operands, c.attrs, c.type(c.operand(0)).dims[0],
                 [&](const ValueList &v, const Attrs &attrs) {
                   return ValueList{gradOfStatistics(b, v[0], v[1], v[2], v[3], attrs)};
                 })[0];
  out[0] = out[0] ? b.add(out[0], more) : more;
  return out;
}

ValueList gradsOfEqualParts(Builder &b, const ValueList &operands, const Attrs &attrs) {
  const Type x = b.type(operands[1]);
  const DType vectors = b.type(operands[2]).dtype;
  const Parts p(b, x, statisticsType(x.dtype), attrs);
  const ValueId g = p.divided(operands[0]), v = p.divided(operands[1]);
  const ValueId rstd = b.create("rsqrt", {b.shift(operands[4], attrs.getFloat("epsilon"))});
  const ValueId normal = b.mul(b.sub(v, p.spread(operands[3])), p.spread(rstd));
  const ValueId dBias = p.rows(g), dScale = p.rows(b.mul(g, normal));
  ValueId inner = b.sub(g, p.spread(b.scale(dBias, 1 / p.count)));
  inner = b.sub(inner, b.mul(normal, p.spread(b.scale(dScale, 1 / p.count))));
  const ValueId slope = b.mul(p.spread(operands[2]), p.spread(rstd));
  return {p.whole(b.mul(inner, slope), x.dtype), b.cast(dScale, vectors), b.cast(dBias, vectors)};
}

ValueList expandBackward(ExpandContext &c) {
  return ofAnyParts(c.b, ValueList(c.operands.begin(), c.operands.end()), c.attrs,
                    c.b.type(c.operands[1]).dims[0],
                    [&](const ValueList &operands, const Attrs &attrs) {
                      return gradsOfEqualParts(c.b, operands, attrs);
                    });
}

Cost costForward(const OpCall &c) { return costNorm(c, 0, 6); }
Cost costBackward(const OpCall &c) { return costNorm(c, 1, 10); }

const AttrDef kEpsilon = {"epsilon", AttrKind::Float, 1e-5, "the constant added to the variance"};
const AttrDef kParts = {
    "parts", AttrKind::Int, std::nullopt,
    "the number of parts of the examples, axis 0: k of n begin at example n k / parts",
    AxisRole::Parts};

} // namespace

void addMicroNorm(OpRegistry &r) {
  r.add({{.name = "batch_norm_parts",
          .doc = "Batch norm in training, where each of `parts` parts of the examples, as equal as "
                 "can be, has statistics of its own. Also gives the mean and the population "
                 "variance of each "
                 "part and channel.",
          .operands = "x scale bias",
          .results = "y means vars",
          .attrs = {kEpsilon, kParts, channelsLastAttr()},
          .traits = kNotACheckpoint,
          .infer = inferForward,
          .vjp = vjpForward,
          .cost = costForward,
          .inPlace = {{0, 0}},
          .factors = factorsOfParts,
          .examples = {"batch_norm_parts(f64[4, 2, 2, 3], f64[2], f64[2]) {parts = 2}",
                       "batch_norm_parts(f64[6, 3], f64[3], f64[3]) {parts = 3, epsilon = 0.1}",
                       "batch_norm_parts(f64[5, 2, 3], f64[2], f64[2]) {parts = 2}",
                       "batch_norm_parts(f64[4, 3, 2, 2], f64[2], f64[2]) {parts = 2, "
                       "channels_last = true}"},
          .low = 0.5,
          .high = 2},
         {.name = "batch_norm_parts_grad",
          .doc = "The gradients of batch_norm_parts, from its statistics; those of scale and bias "
                 "for each part.",
          .operands = "g x scale means vars",
          .results = "dx dscales dbiases",
          .attrs = {kEpsilon, kParts, channelsLastAttr()},
          .traits = kNotACheckpoint,
          .infer = inferBackward,
          .expand = expandBackward,
          .cost = costBackward,
          .inPlace = {{0, 0}, {0, 1}},
          .factors = factorsOfParts,
          .examples = {"batch_norm_parts_grad(f64[4, 2, 2, 3], f64[4, 2, 2, 3], f64[2], f64[2, 2], "
                       "f64[2, 2]) {parts = 2}",
                       "batch_norm_parts_grad(f64[6, 3], f64[6, 3], f64[3], f64[3, 3], f64[3, 3]) "
                       "{parts = 3}",
                       "batch_norm_parts_grad(f64[5, 3], f64[5, 3], f64[3], f64[2, 3], f64[2, 3]) "
                       "{parts = 2}",
                       "batch_norm_parts_grad(f64[4, 3, 2, 2], f64[4, 3, 2, 2], f64[2], f64[2, 2], "
                       "f64[2, 2]) {parts = 2, channels_last = true}"},
          .low = 0.5,
          .high = 2}});
}

} // namespace isthmus
