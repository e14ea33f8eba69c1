// Local response normalisation across channels (Krizhevsky et al. 2012, section 3.3). A composition
// of simpler ops would keep three tensors of x's size for the backward pass; this row keeps x
// alone.

#include "ir/factors.h"
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

// Reshapes tensors to [N, channels, the rest] in the type of the sums. W is the window's matrix of
// zeros and ones, and s = bias + alpha / size W x^2.
struct Windows {
  Builder &b;
  const Attrs &attrs;
  Type type, wide;
  ValueId window;

  Windows(ExpandContext &c, const Type &x) : b(c.b), attrs(c.attrs), type(x) {
    int64_t channels = type.dims[1], size = attrs.getInt("size");
    wide = Type(type.dtype == DType::F64 ? DType::F64 : DType::F32, {type.dims[0], channels, 1});
    for (int64_t a = 2; a < type.rank(); ++a)
      wide.dims[2] *= type.dims[size_t(a)];
    // Row c has ones in the columns from c - (size - 1) / 2 to c + size / 2.
    window = b.full(Type(wide.dtype, {channels, channels}), 1);
    window = b.create("trilu", {window}, {{"k", -((size - 1) / 2)}, {"upper", true}});
    window = b.create("trilu", {window}, {{"k", size / 2}, {"upper", false}});
  }
  ValueId widened(ValueId v) const { return b.reshape(b.cast(v, wide.dtype), wide.dims); }
  ValueId narrowed(ValueId v) const { return b.cast(b.reshape(v, type.dims), type.dtype); }
  ValueId product(ValueId v, bool transposed) const {
    return b.create("matmul", {window, v}, {{"transpose_a", transposed}});
  }
  ValueId power(ValueId v, double e) const {
    return b.create("pow", {v, b.full({wide.dtype, {}}, e)});
  }
  double alpha() const { return attrs.getFloat("alpha") / double(attrs.getInt("size")); }
  ValueId sums(ValueId x) const {
    return b.create("affine", {product(b.create("square", {x}), /*transposed=*/false)},
                    {{"scale", alpha()}, {"shift", attrs.getFloat("bias")}});
  }
};

ValueList expandLrn(ExpandContext &c) { // x s^-beta
  Windows w(c, c.b.type(c.operands[0]));
  ValueId x = w.widened(c.operands[0]);
  return {w.narrowed(c.b.mul(x, w.power(w.sums(x), -c.attrs.getFloat("beta"))))};
}

// dx = g s^-beta - 2 alpha beta / size * x W^T (g x s^(-beta - 1)).
ValueList expandLrnGrad(ExpandContext &c) {
  Builder &b = c.b;
  Windows w(c, b.type(c.operands[1]));
  double beta = c.attrs.getFloat("beta");
  ValueId g = w.widened(c.operands[0]), x = w.widened(c.operands[1]), s = w.sums(x);
  ValueId others = w.product(b.mul(b.mul(g, x), w.power(s, -beta - 1)), /*transposed=*/true);
  return {w.narrowed(
      b.sub(b.mul(g, w.power(s, -beta)), b.scale(b.mul(x, others), 2 * w.alpha() * beta)))};
}

Cost costLrn(const OpCall &c) {
  double n = double(c.results[0].elements()), size = double(c.attrs->getInt("size"));
  bool isGrad = c.operands.size() > 1;
  return {n * (isGrad ? size * (2 * size + 30) : 2 * size + 30),
          double(c.results[0].bytes()) * (isGrad ? 3 : 2)};
}

const std::vector<AttrDef> kAttrs = {
    {"size", AttrKind::Int, {}, "the number of channels in the sum of squares"},
    {"alpha", AttrKind::Float, 1e-4, "the factor of the mean square"},
    {"beta", AttrKind::Float, 0.75, "the exponent"},
    {"bias", AttrKind::Float, 1.0, "the constant added to the scaled mean square"}};

} // namespace

void addLrn(OpRegistry &r) {
  r.add({{.name = "lrn",
          .doc = "x divided by (bias + alpha / size * the sum of squares of the `size` channels "
                 "around it)^beta; channels are axis 1.",
          .operands = "x",
          .results = "y",
          .attrs = kAttrs,
          .infer = inferLrn,
          .vjp = vjpLrn,
          .expand = expandLrn,
          .cost = costLrn,
          .factors =
              [](const OpCall &c) {
                return leadingFactors(c, 1, {0, 1}, {0});
              },
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
          .factors =
              [](const OpCall &c) {
                return leadingFactors(c, 1, {0, 1}, {0});
              },
          .examples = {"lrn_grad(f64[2, 7, 3], f64[2, 7, 3]) {size = 3, alpha = 0.5}",
                       "lrn_grad(f64[2, 5, 2, 2], f64[2, 5, 2, 2]) {size = 4, alpha = 0.3, beta = "
                       "0.5, bias = 2.0}"}}});
}

} // namespace isthmus
