// Root mean square norm (Zhang and Sennrich 2019): layer norm without a mean. The backward row
// takes `rstd` as an independent operand, like that of layer norm.

#include "ir/factors.h"
#include "ir/ops/norm.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferRmsNorm(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = expectEpsilon(c))
    return e;
  auto dims = layerStatistics(c, c.operand(0), 1);
  if (!dims)
    return dims.takeError();
  return TypeList{c.operand(0), Type(statisticsType(c.operand(0).dtype), *dims)};
}

llvm::Expected<TypeList> inferRmsNormGrad(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  auto dims = layerStatistics(c, c.operand(1), 2);
  if (!dims)
    return dims.takeError();
  Type statistics(statisticsType(c.operand(1).dtype), *dims);
  if (c.operand(3) != statistics)
    return c.error("expects 'rstd' of type '{0}', got '{1}'", statistics.str(), c.operand(3).str());
  return TypeList{c.operand(1), c.operand(2)};
}

ValueList vjpRmsNorm(VjpContext &c) {
  Builder &b = c.b;
  ValueList out(2);
  if (c.hasGrad(0)) {
    NodeId grad =
        b.createNode("rms_norm_grad", {c.grad(0), c.operand(0), c.operand(1), c.result(1)},
                     {{"axis", c.attrs.getInt("axis")}});
    for (unsigned i = 0; i < 2; ++i)
      if (c.wants(i))
        out[i] = b.graph().node(grad).result(i);
  }
  if (c.wants(0) && c.hasGrad(1)) { // d rstd / dx = -rstd^3 x / count
    const Type x = c.type(c.operand(0));
    Layer layer(b, x, c.attrs.getInt("axis"));
    ValueId rstd = c.result(1);
    ValueId slope = b.scale(b.mul(rstd, b.mul(rstd, rstd)), -1 / layer.count);
    ValueId more = b.cast(b.mul(layer.wide(c.operand(0)), b.mul(c.grad(1), slope)), x.dtype);
    out[0] = out[0] ? b.add(out[0], more) : more;
  }
  return out;
}

ValueList expandRmsNorm(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[0]);
  Layer layer(b, x, c.attrs.getInt("axis"));
  ValueId wide = layer.wide(c.operands[0]);
  ValueId square = layer.mean(b.create("square", {wide}));
  ValueId rstd = b.create("rsqrt", {b.shift(square, c.attrs.getFloat("epsilon"))});
  ValueId y = b.mul(b.mul(wide, rstd), layer.wide(c.operands[1]));
  return {b.cast(y, x.dtype), rstd};
}

ValueList expandRmsNormGrad(ExpandContext &c) {
  Builder &b = c.b;
  const Type x = b.type(c.operands[1]);
  DType scaleType = b.type(c.operands[2]).dtype;
  Layer layer(b, x, c.attrs.getInt("axis"));
  ValueId g = layer.wide(c.operands[0]), scale = layer.wide(c.operands[2]), rstd = c.operands[3];
  ValueId normal = b.mul(layer.wide(c.operands[1]), rstd);
  ValueId scaled = b.mul(g, scale);
  ValueId inner = b.sub(scaled, b.mul(normal, layer.mean(b.mul(scaled, normal))));
  return {b.cast(b.mul(rstd, inner), x.dtype), b.cast(layer.total(b.mul(g, normal)), scaleType)};
}

ValueId inverseRmsNorm(InverseContext &c, size_t wanted) {
  if (wanted != 0)
    return ValueId();
  Layer layer(c.b, c.want, c.attrs.getInt("axis"));
  ValueId normal = c.b.div(layer.wide(c.results[0]), layer.wide(c.operands[1]));
  return c.b.cast(c.b.div(normal, c.results[1]), c.want.dtype);
}

Cost costForward(const OpCall &c) { return costNorm(c, 0, 4); }
Cost costBackward(const OpCall &c) { return costNorm(c, 1, 8); }

const AttrDef kAxis = {"axis", AttrKind::Int, int64_t(-1),
                       "the first of the axes normalised together"};
const AttrDef kEpsilon = {"epsilon", AttrKind::Float, 1e-5,
                          "the constant added to the mean square"};

} // namespace

void addRmsNorm(OpRegistry &r) {
  r.add({{.name = "rms_norm",
          .doc = "x divided by its root mean square over the axes from `axis` on, times scale. "
                 "Also gives the reciprocal of the root mean square.",
          .operands = "x scale",
          .results = "y rstd",
          .attrs = {kAxis, kEpsilon},
          .infer = inferRmsNorm,
          .vjp = vjpRmsNorm,
          .expand = expandRmsNorm,
          .inverse = inverseRmsNorm,
          .inverseHolds = scaleIsNeverZero,
          .inverseError = 4e-6,
          .cost = costForward,
          .inPlace = {{0, 0}},
          .factors =
              [](const OpCall &c) {
                return leadingFactors(c, outerAxes(c, 0), {0}, {0, 1});
              },
          .examples = {"rms_norm(f64[2, 3, 4], f64[4])",
                       "rms_norm(f64[2, 3, 2], f64[3, 2]) {axis = 1, epsilon = 0.01}",
                       "rms_norm(f64[6], f64[6]) {axis = 0}"}},
         {.name = "rms_norm_grad",
          .doc = "The gradients of rms_norm, from its rstd.",
          .operands = "g x scale rstd",
          .results = "dx dscale",
          .attrs = {kAxis},
          .infer = inferRmsNormGrad,
          .expand = expandRmsNormGrad,
          .cost = costBackward,
          .inPlace = {{0, 0}, {0, 1}},
          .factors =
              [](const OpCall &c) {
                return leadingFactors(c, outerAxes(c, 1), {0, 1, 3}, {0});
              },
          .examples = {"rms_norm_grad(f64[2, 3, 4], f64[2, 3, 4], f64[4], f64[2, 3, 1])",
                       "rms_norm_grad(f64[2, 3, 2], f64[2, 3, 2], f64[3, 2], f64[2, 1, 1]) "
                       "{axis = 1}",
                       "rms_norm_grad(f64[6], f64[6], f64[6], f64[1]) {axis = 0}"}}});
}

} // namespace isthmus
