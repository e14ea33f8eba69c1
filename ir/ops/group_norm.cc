// Group norm (Wu and He 2018). With as many groups as channels it is instance norm. The backward
// row takes the statistics as independent operands, like that of layer norm.

#include "ir/factors.h"
#include "ir/ops/norm.h"

namespace isthmus {
namespace {

// The type of the statistics of x, [N, groups].
llvm::Expected<Type> groupStatistics(const InferContext &c, const Type &x, size_t scale) {
  int64_t groups = c.attrs.getInt("groups");
  if (x.rank() < 2)
    return c.error("expects an operand of rank 2 or more, got '{0}'", x.str());
  if (groups < 1 || x.dims[1] % groups != 0)
    return c.error("expects a number of groups that divides the {0} channels, got {1}", x.dims[1],
                   groups);
  const Type &s = c.operand(scale);
  if (s.rank() != 1 || s.dims[0] != x.dims[1])
    return c.error("expects a scale of {0} elements, one per channel, got '{1}'", x.dims[1],
                   s.str());
  if (s.dtype != x.dtype && s.dtype != statisticsType(x.dtype))
    return c.error("expects a scale of {0} or {1}, got '{2}'", dtypeName(x.dtype),
                   dtypeName(statisticsType(x.dtype)), s.str());
  return Type(statisticsType(x.dtype), {x.dims[0], groups});
}

llvm::Expected<TypeList> inferGroupNorm(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = expectEpsilon(c))
    return e;
  auto statistics = groupStatistics(c, c.operand(0), 1);
  if (!statistics)
    return statistics.takeError();
  if (llvm::Error e = c.expectSame(1, 2))
    return e;
  return TypeList{c.operand(0), *statistics, *statistics};
}

llvm::Expected<TypeList> inferGroupNormGrad(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  auto statistics = groupStatistics(c, c.operand(1), 2);
  if (!statistics)
    return statistics.takeError();
  for (size_t i : {3, 4})
    if (c.operand(i) != *statistics)
      return c.error("expects '{0}' of type '{1}', got '{2}'", c.op.operandNames[i],
                     statistics->str(), c.operand(i).str());
  return TypeList{c.operand(1), c.operand(2), c.operand(2)};
}

// Reshapes operands to [N, groups, channels of a group, the rest], in the type of the statistics.
struct Groups {
  Builder &b;
  Type x;
  Dims dims;
  double count;

  Groups(Builder &b, const Type &x, int64_t groups)
      : b(b), x(x.with(statisticsType(x.dtype))), dims{x.dims[0], groups, x.dims[1] / groups, 1} {
    for (int64_t a = 2; a < x.rank(); ++a)
      dims[3] *= x.dims[size_t(a)];
    count = double(dims[2] * dims[3]);
  }
  ValueId split(ValueId v) const { return b.reshape(b.cast(v, x.dtype), dims); }
  ValueId perChannel(ValueId v) const {
    return b.reshape(b.cast(v, x.dtype), {1, dims[1], dims[2], 1});
  }
  ValueId perGroup(ValueId v) const { return b.reshape(v, {dims[0], dims[1], 1, 1}); }
  ValueId mean(ValueId v) const { return b.scale(b.sum(v, {2, 3}, /*keepDims=*/true), 1 / count); }
  ValueId total(ValueId v, DType type) const {
    return b.cast(b.reshape(b.sum(v, {0, 3}, /*keepDims=*/false), {dims[1] * dims[2]}), type);
  }
};

ValueList vjpGroupNorm(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(3);
  int64_t groups = c.attrs.getInt("groups");
  if (c.hasGrad(0)) {
    NodeId grad = b.createNode("group_norm_grad",
                               {c.grad(0), c.operand(0), c.operand(1), c.result(1), c.result(2)},
                               {{"groups", groups}});
    for (unsigned i = 0; i < 3; ++i)
      if (c.wants(i))
        out[i] = b.graph().node(grad).result(i);
  }
  if (!c.wants(0))
    return out;
  const Type x = c.type(c.operand(0));
  Groups as(b, x, groups);
  auto add = [&](ValueId more) {
    more = b.cast(b.reshape(b.broadcastTo(more, as.dims), x.dims), x.dtype);
    out[0] = out[0] ? b.add(out[0], more) : more;
  };
  if (c.hasGrad(1))
    add(as.perGroup(b.scale(c.grad(1), 1 / as.count)));
  if (c.hasGrad(2)) { // d rstd / dx = -rstd^3 (x - mean) / count
    ValueId rstd = c.result(2);
    ValueId centred = b.sub(as.split(c.operand(0)), as.perGroup(c.result(1)));
    ValueId slope = b.scale(b.mul(rstd, b.mul(rstd, rstd)), -1 / as.count);
    add(b.mul(centred, as.perGroup(b.mul(c.grad(2), slope))));
  }
  return out;
}

ValueList expandGroupNorm(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[0]);
  Groups as(b, x, c.attrs.getInt("groups"));
  ValueId wide = as.split(c.operands[0]), mean = as.mean(wide), centred = b.sub(wide, mean);
  ValueId variance = as.mean(b.create("square", {centred}));
  ValueId rstd = b.create("rsqrt", {b.shift(variance, c.attrs.getFloat("epsilon"))});
  ValueId y = b.mul(b.mul(centred, rstd), as.perChannel(c.operands[1]));
  y = b.add(y, as.perChannel(c.operands[2]));
  llvm::ArrayRef<int64_t> statistics = llvm::makeArrayRef(as.dims).take_front(2);
  return {b.cast(b.reshape(y, x.dims), x.dtype), b.reshape(mean, statistics),
          b.reshape(rstd, statistics)};
}

ValueList expandGroupNormGrad(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[1]);
  DType scaleType = b.type(c.operands[2]).dtype;
  Groups as(b, x, c.attrs.getInt("groups"));
  ValueId g = as.split(c.operands[0]), rstd = as.perGroup(c.operands[4]);
  ValueId normal = b.mul(b.sub(as.split(c.operands[1]), as.perGroup(c.operands[3])), rstd);
  ValueId scaled = b.mul(g, as.perChannel(c.operands[2]));
  ValueId inner = b.sub(scaled, as.mean(scaled));
  inner = b.sub(inner, b.mul(normal, as.mean(b.mul(scaled, normal))));
  return {b.cast(b.reshape(b.mul(rstd, inner), x.dims), x.dtype),
          as.total(b.mul(g, normal), scaleType), as.total(g, scaleType)};
}

Cost costForward(const OpCall &c) { return costNorm(c, 0, 6); }
Cost costBackward(const OpCall &c) { return costNorm(c, 1, 10); }

const AttrDef kGroups = {"groups", AttrKind::Int, {}, "the number of groups of channels"};
const AttrDef kEpsilon = {"epsilon", AttrKind::Float, 1e-5, "the constant added to the variance"};

} // namespace

void addGroupNorm(OpRegistry &r) {
  r.add(
      {{.name = "group_norm",
        .doc = "x minus the mean, divided by the standard deviation, of its group of channels "
               "(axis 1) in each row of the batch; times scale, plus bias, which have one element "
               "per channel. Also gives the mean and the reciprocal of the standard deviation.",
        .operands = "x scale bias",
        .results = "y mean rstd",
        .attrs = {kGroups, kEpsilon},
        .infer = inferGroupNorm,
        .vjp = vjpGroupNorm,
        .expand = expandGroupNorm,
        .cost = costForward,
        .inPlace = {{0, 0}},
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, 1, {0}, {0, 1, 2});
            },
        .examples = {"group_norm(f64[2, 4, 3], f64[4], f64[4]) {groups = 2}",
                     "group_norm(f64[2, 3, 2, 2], f64[3], f64[3]) {groups = 3, epsilon = 0.01}",
                     "group_norm(f64[3, 6], f64[6], f64[6]) {groups = 1}"}},
       {.name = "group_norm_grad",
        .doc = "The gradients of group_norm, from its mean and rstd.",
        .operands = "g x scale mean rstd",
        .results = "dx dscale dbias",
        .attrs = {kGroups},
        .infer = inferGroupNormGrad,
        .expand = expandGroupNormGrad,
        .cost = costBackward,
        .inPlace = {{0, 0}, {0, 1}},
        .factors =
            [](const OpCall &c) {
              return leadingFactors(c, 1, {0, 1, 3, 4}, {0});
            },
        .examples = {"group_norm_grad(f64[2, 4, 3], f64[2, 4, 3], f64[4], f64[2, 2], f64[2, 2]) "
                     "{groups = 2}",
                     "group_norm_grad(f64[2, 3, 2, 2], f64[2, 3, 2, 2], f64[3], f64[2, 3], "
                     "f64[2, 3]) {groups = 3}"}}});
}

} // namespace isthmus
