// Local response normalisation across channels (Krizhevsky et al. 2012, section 3.3). As a
// composition it would keep three tensors of x's size for the backward pass; the row keeps x.

#include "ir/ops/norm.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferLrn(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectRank(0, 2, 64))
    return e;
  if (c.attrs.getInt("size") < 1)
    return c.error("expects a size of 1 or more, got {0}", c.attrs.getInt("size"));
  return TypeList{c.operand(0)};
}
llvm::Expected<TypeList> inferLrnGrad(const InferContext &c) {
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  return inferLrn(c);
}

ValueList vjpLrn(VjpContext &c) {
  return {c.b.create("lrn_grad", {c.grad(0), c.operand(0)}, c.attrs)};
}

// With s = bias + alpha / size * W x^2, W being the window's matrix of zeros and ones:
// dx = g s^-beta - 2 alpha beta / size * x W^T (g x s^(-beta - 1)).
ValueList expandLrnGrad(ExpandContext &c) {
  Builder &b = c.b;
  const Type type = b.type(c.operands[1]);
  int64_t channels = type.dims[1], size = c.attrs.getInt("size");
  double alpha = c.attrs.getFloat("alpha"), beta = c.attrs.getFloat("beta");
  Type wide(type.dtype == DType::F64 ? DType::F64 : DType::F32, {type.dims[0], channels, 1});
  for (int64_t a = 2; a < type.rank(); ++a)
    wide.dims[2] *= type.dims[size_t(a)];
  ValueId g = b.reshape(b.cast(c.operands[0], wide.dtype), wide.dims);
  ValueId x = b.reshape(b.cast(c.operands[1], wide.dtype), wide.dims);
  // Row c has ones in the columns from c - (size - 1) / 2 to c + size / 2.
  ValueId window = b.full(Type(wide.dtype, {channels, channels}), 1);
  window = b.create("trilu", {window}, {{"k", -((size - 1) / 2)}, {"upper", true}});
  window = b.create("trilu", {window}, {{"k", size / 2}, {"upper", false}});
  auto product = [&](ValueId v, bool transposed) {
    return b.create("matmul", {window, v}, {{"transpose_a", transposed}});
  };
  auto power = [&](ValueId v, double e) {
    return b.create("pow", {v, b.full({wide.dtype, {}}, e)});
  };
  ValueId s = b.create("affine", {product(b.create("square", {x}), false)},
                       {{"scale", alpha / double(size)}, {"shift", c.attrs.getFloat("bias")}});
  ValueId others = product(b.mul(b.mul(g, x), power(s, -beta - 1)), true);
  ValueId dx =
      b.sub(b.mul(g, power(s, -beta)), b.scale(b.mul(x, others), 2 * alpha * beta / double(size)));
  return {b.cast(b.reshape(dx, type.dims), type.dtype)};
}

Cost costLrn(const OpCall &c) {
  double n = double(c.results[0].elements()), size = double(c.attrs->getInt("size"));
  bool isGrad = c.operands.size() > 1;
  return {n * (isGrad ? size * (2 * size + 30) : 2 * size + 30),
          double(c.results[0].bytes()) * (isGrad ? 3 : 2)};
}

const std::vector<AttrDef> kAttrs = {
    {"size", AttrKind::Int, {}, "how many channels are summed over"},
    {"alpha", AttrKind::Float, 1e-4, "what the mean square is multiplied by"},
    {"beta", AttrKind::Float, 0.75, "the exponent"},
    {"bias", AttrKind::Float, 1.0, "what is added to it"}};

} // namespace

void addLrn(OpRegistry &r) {
  r.add({{.name = "lrn",
          .doc = "x over (bias + alpha / size * the sum of squares of the `size` channels around "
                 "it)^beta; channels are axis 1.",
          .operands = "x",
          .results = "y",
          .attrs = kAttrs,
          .infer = inferLrn,
          .vjp = vjpLrn,
          .cost = costLrn,
          .examples = {"lrn(f64[2, 7, 3]) {size = 3, alpha = 0.5}",
                       "lrn(f64[2, 5, 2, 2]) {size = 4, alpha = 0.3, beta = 0.5, bias = 2.0}",
                       "lrn(f64[3, 4]) {size = 9, alpha = 1.0}"}},
         {.name = "lrn_grad",
          .doc = "The gradient of lrn at x.",
          .operands = "g x",
          .results = "dx",
          .attrs = kAttrs,
          .infer = inferLrnGrad,
          .expand = expandLrnGrad,
          .cost = costLrn,
          .examples = {"lrn_grad(f64[2, 7, 3], f64[2, 7, 3]) {size = 3, alpha = 0.5}",
                       "lrn_grad(f64[2, 5, 2, 2], f64[2, 5, 2, 2]) {size = 4, alpha = 0.3, beta = "
                       "0.5, bias = 2.0}"}}});
}

} // namespace isthmus
