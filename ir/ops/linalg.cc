// Determinants and inverses of small matrices.

#include "ir/ops/linalg.h"
#include "ir/factors.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferSquare(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectRank(0, 2, 64))
    return e;
  const Type &x = c.operand(0);
  if (x.dims.back() != x.dims[x.dims.size() - 2])
    return c.error("expects square matrices in the last two axes, got '{0}'", x.str());
  return TypeList{x};
}

llvm::Expected<TypeList> inferDet(const InferContext &c) {
  auto square = inferSquare(c);
  if (!square)
    return square.takeError();
  return TypeList{c.operand(0).with(llvm::makeArrayRef(c.operand(0).dims).drop_back(2))};
}

// g A^-T, where g has one number for each matrix.
ValueId timesInverse(VjpContext &c, ValueId g) {
  Builder &b = c.b;
  Dims dims = c.type(c.operand(0)).dims;
  Ints swap;
  for (size_t i = 0; i < dims.size(); ++i)
    swap.push_back(int64_t(i));
  std::swap(swap[dims.size() - 1], swap[dims.size() - 2]);
  ValueId turned = b.transpose(b.create("inverse", {c.operand(0)}), swap);
  dims[dims.size() - 1] = dims[dims.size() - 2] = 1;
  return b.mul(b.reshape(g, dims), turned);
}

// g det(A) A^-T (Jacobi's formula). It is NaN for a singular matrix, which has no inverse.
ValueList vjpDet(VjpContext &c) { return {timesInverse(c, c.b.mul(c.grad(0), c.result(0)))}; }
ValueList vjpLogAbsDet(VjpContext &c) { return {timesInverse(c, c.grad(0))}; }

ValueList expandLogAbsDet(ExpandContext &c) {
  return {c.b.create("log", {c.b.create("abs", {c.b.create("det", {c.operands[0]})})})};
}

ValueList vjpInverse(VjpContext &c) { // -Y^T g Y^T
  Builder &b = c.b;
  ValueId y = c.result(0);
  ValueId right = b.create("matmul", {c.grad(0), y}, {{"transpose_b", true}});
  return {b.neg(b.create("matmul", {y, right}, {{"transpose_a", true}}))};
}

ValueId inverseInverse(InverseContext &c, size_t) { return c.b.create("inverse", {c.results[0]}); }

// Elimination of an n x n matrix takes n^3 / 3 multiply-adds; an inverse takes n^3.
Cost costElimination(const OpCall &c, double flops) {
  double n = double(c.operands[0].dims.back());
  return {flops * n * double(c.operands[0].elements()),
          double(c.operands[0].bytes() + c.results[0].bytes())};
}
Cost costDet(const OpCall &c) { return costElimination(c, 2.0 / 3); }
Cost costInverse(const OpCall &c) { return costElimination(c, 2); }

// The axes before the matrices.
Factors factorsOfMatrices(const OpCall &c) {
  return leadingFactors(c, c.operands[0].dims.size() - 2, {0}, {0});
}

} // namespace

void registerLinalgOps(OpRegistry &r) {
  r.add({{.name = "det",
          .doc = "The determinants of the matrices in the last two axes.",
          .operands = "x",
          .results = "y",
          .infer = inferDet,
          .vjp = vjpDet,
          .cost = costDet,
          .factors = factorsOfMatrices,
          .examples = {"det(f64[3, 3])", "det(f64[2, 2, 2])", "det(f64[1, 1])"}},
         {.name = "logabsdet",
          .doc = "The logarithms of the absolute determinants of the matrices in the last two "
                 "axes, even where the determinants themselves are too large or too small for a "
                 "float; minus infinity for a singular matrix.",
          .operands = "x",
          .results = "y",
          .infer = inferDet,
          .vjp = vjpLogAbsDet,
          .expand = expandLogAbsDet,
          .cost = costDet,
          .factors = factorsOfMatrices,
          .examples = {"logabsdet(f64[3, 3])", "logabsdet(f64[2, 2, 2])", "logabsdet(f64[1, 1])"}},
         {.name = "inverse",
          .doc = "The inverses of the matrices in the last two axes; NaN for a matrix without an "
                 "inverse.",
          .operands = "x",
          .results = "y",
          .infer = inferSquare,
          .vjp = vjpInverse,
          .inverse = inverseInverse,
          .inverseError = 1e-5,
          .cost = costInverse,
          .factors = factorsOfMatrices,
          .examples = {"inverse(f64[2, 2])", "inverse(f64[2, 3, 3])"}}});
}

} // namespace isthmus
