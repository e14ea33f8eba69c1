// The matrix product, with an optional bias. Its gradients are matrix products.

#include "ir/factors.h"
#include "ir/ops/linalg.h"
#include "ir/value_facts.h"
#include <algorithm>

namespace isthmus {
namespace {

// The matrix in the last two dims of an operand, after transposition.
struct Matrix {
  int64_t rows, columns;
};
Matrix matrixOf(const Type &t, bool transposed) {
  int64_t rows = t.dims[t.dims.size() - 2], columns = t.dims.back();
  return transposed ? Matrix{columns, rows} : Matrix{rows, columns};
}

llvm::Expected<TypeList> inferMatmul(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  for (size_t i : {0, 1})
    if (llvm::Error e = c.expectRank(i, 2, 64))
      return e;
  const Type &a = c.operand(0), &b = c.operand(1);
  for (const Type &t : c.operands.drop_front())
    if (a.dtype != t.dtype)
      return c.error("expects operands of one element type, got '{0}' and '{1}'", a.str(), t.str());
  bool ta = c.attrs.getBool("transpose_a"), tb = c.attrs.getBool("transpose_b");
  Matrix ma = matrixOf(a, ta), mb = matrixOf(b, tb);
  if (ma.columns != mb.rows)
    return c.error("expects inner sizes to agree, got {0} in '{1}'{2} and {3} in '{4}'{5}",
                   ma.columns, a.str(), ta ? " transposed" : "", mb.rows, b.str(),
                   tb ? " transposed" : "");
  if (c.has(2) && (c.operand(2).rank() != 1 || c.operand(2).dims[0] != mb.columns))
    return c.error("expects a bias of {0} elements, one per column of the result, got '{1}'",
                   mb.columns, c.operand(2).str());
  Dims batch(std::max(a.rank(), b.rank()) - 2, 1);
  for (const Type &t : {a, b})
    for (size_t i = 0, lead = batch.size() + 2 - t.dims.size(); i + 2 < t.dims.size(); ++i) {
      int64_t &d = batch[lead + i];
      if (d == 1)
        d = t.dims[i];
      else if (t.dims[i] != 1 && t.dims[i] != d)
        return c.error("expects batch sizes that broadcast to one, got '{0}' and '{1}'", a.str(),
                       b.str());
    }
  batch.push_back(ma.rows);
  batch.push_back(mb.columns);
  return TypeList{a.with(batch)};
}

// y = c + the product: c has the product's type, or is f32 where that has 16 bits.
llvm::Expected<TypeList> inferMatmulAdd(const InferContext &c) {
  auto y = inferMatmul(InferContext(c.op, c.attrs, c.operands.drop_front()));
  if (!y)
    return y;
  const Type product = (*y)[0];
  Type wide = product;
  if (dtypeBytes(product.dtype) == 2)
    wide.dtype = DType::F32;
  if (c.operand(0) != product && c.operand(0) != wide)
    return c.error("expects 'c' of the product's type '{0}'{1}, got '{2}'", product.str(),
                   wide == product ? "" : " or in f32", c.operand(0).str());
  return TypeList{c.operand(0)};
}

// [..., m, k] [..., k, n] -> [..., m, n], with transposed operands as they lie; a bias is [n]. A
// sum with a bias is not cut. `a` is the first factor.
Factors factorsOfProduct(const OpCall &c, size_t a) {
  Factors f = wholeFactors(c);
  Factors::Axes &y = f.results[0];
  const uint32_t batch = uint32_t(y.size() - 2), m = batch, n = m + 1;
  const bool hasBias = a == 0 && c.operands.size() > 2;
  const uint32_t k = hasBias ? Factors::kWhole : n + 1;
  for (uint32_t i = 0; i < y.size(); ++i)
    y[i].factor = i;
  for (size_t side : {0, 1}) {
    Factors::Axes &axes = f.operands[a + side];
    const size_t rank = axes.size();
    for (size_t i = 0; i + 2 < rank; ++i)
      if (const size_t at = batch + 2 - rank + i;
          c.operands[a + side].dims[i] == c.results[0].dims[at])
        axes[i].factor = uint32_t(at);
    axes[rank - 2].factor = side == 0 ? m : k;
    axes[rank - 1].factor = side == 0 ? k : n;
    if (c.attrs->getBool(side == 0 ? "transpose_a" : "transpose_b"))
      std::swap(axes[rank - 2], axes[rank - 1]);
  }
  if (hasBias)
    f.operands[2][0].factor = n;
  return f;
}
Factors factorsOfMatmul(const OpCall &c) { return factorsOfProduct(c, 0); }
Factors factorsOfMatmulAdd(const OpCall &c) {
  Factors f = factorsOfProduct(c, 1);
  f.operands[0] = f.results[0];
  for (size_t side : {1, 2}) // c is added once
    for (Factors::Axis &axis : f.operands[side])
      if (!f.isCut(f.results[0], axis.factor))
        axis = {};
  return f;
}

ValueId matmul(Builder &b, ValueId x, bool tx, ValueId y, bool ty) {
  return b.create("matmul", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}});
}

// Flattens all axes but the last into one: a view.
ValueId flattened(Builder &b, ValueId x) {
  const Type &t = b.type(x);
  int64_t rows = 1;
  for (int64_t d : llvm::makeArrayRef(t.dims).drop_back())
    rows *= d;
  return b.reshape(x, {rows, t.dims.back()});
}

// With C = op(A) op(B), the gradient of op(A) is g op(B)^T and that of op(B) is op(A)^T g. Each is
// built in the layout of its operand, and summed over the batch axes that were broadcast.
ValueList vjpMatmul(VjpContext &c) {
  bool ta = c.attrs.getBool("transpose_a"), tb = c.attrs.getBool("transpose_b");
  ValueId a = c.operand(0), b = c.operand(1), g = c.grad(0);
  const Type typeA = c.type(a), typeB = c.type(b);
  ValueList out(c.numOperands());
  if (c.wants(0)) {
    ValueId da = ta ? matmul(c.b, b, tb, g, true) : matmul(c.b, g, false, b, !tb);
    out[0] = c.b.sumTo(da, typeA.dims);
  }
  if (c.wants(1)) {
    // A weight that is shared by the whole batch: the sum over the batch is part of one product of
    // tall matrices, so no product per batch element is stored.
    bool shared = typeB.rank() == 2 && typeA.rank() > 2 && !ta;
    ValueId x = shared ? flattened(c.b, a) : a, gx = shared ? flattened(c.b, g) : g;
    ValueId db = tb ? matmul(c.b, gx, true, x, ta) : matmul(c.b, x, !ta, gx, false);
    out[1] = c.b.sumTo(db, typeB.dims);
  }
  if (c.wants(2))
    out[2] = c.b.sumTo(g, c.type(c.operand(2)).dims);
  return out;
}

// --- Inverses: op(A) = Y op(B)^-1 and op(B) = op(A)^-1 Y, if the other factor is square. All
// products by one factor share its inverse.

bool isSquare(const Type &t) { return t.dims.back() == t.dims[t.dims.size() - 2]; }

// The bias of the inverse product, -bias times the inverse: the result is rounded once with its
// bias, and no product without the bias is stored.
ValueId biasTaken(Builder &b, ValueId bias, ValueId inverse, bool transposed) {
  int64_t n = b.type(bias).dims[0];
  return b.neg(b.reshape(matmul(b, b.reshape(bias, {1, n}), false, inverse, transposed), {n}));
}

ValueId inverseMatmul(InverseContext &c, size_t wanted) {
  if (wanted > 1)
    return ValueId();
  Builder &b = c.b;
  bool transposed[] = {c.attrs.getBool("transpose_a"), c.attrs.getBool("transpose_b")};
  ValueId known = c.operands[1 - wanted], y = c.results[0];
  bool turned = transposed[wanted], knownTurned = transposed[1 - wanted];
  // After transposition, the wanted operand has the shape of the result, unless it was broadcast
  // over the batch.
  Dims rows = c.want.dims;
  if (turned)
    std::swap(rows[rows.size() - 1], rows[rows.size() - 2]);
  if (!isSquare(b.type(known)) || rows != b.type(y).dims)
    return ValueId();
  ValueId inverse = b.create("inverse", {known});
  if (c.operands.size() > 2) {
    if (wanted == 0 && !turned && b.type(known).rank() == 2)
      return b.create("matmul", {y, inverse, biasTaken(b, c.operands[2], inverse, knownTurned)},
                      {{"transpose_b", knownTurned}});
    y = b.sub(y, c.operands[2]);
  }
  bool fromRight = (wanted == 0) != turned; // a transposed product has its factors swapped
  return fromRight ? matmul(b, y, turned, inverse, knownTurned != turned)
                   : matmul(b, inverse, knownTurned != turned, y, turned);
}

// The other factor must be a weight: matrices computed from examples may be singular, and their
// inverse costs more than it saves.
bool otherIsWeight(const ValueFacts &facts, const Node &n, size_t wanted) {
  return wanted <= 1 && facts.isWeight(n.operands[1 - wanted]);
}

Cost costMatmul(const OpCall &c) {
  Matrix a = matrixOf(c.operands[0], c.attrs->getBool("transpose_a"));
  Cost cost;
  cost.flops =
      double(c.results[0].elements()) * (2.0 * double(a.columns) + (c.operands.size() > 2));
  cost.bytes = double(c.results[0].bytes());
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  return cost;
}

ValueList expandMatmulAdd(ExpandContext &c) {
  auto inTypeOfSum = [&](size_t i) {
    const DType type = c.b.type(c.operands[0]).dtype;
    return c.b.type(c.operands[i]).dtype == type ? c.operands[i] : c.b.cast(c.operands[i], type);
  };
  return {c.b.add(c.operands[0], c.b.create("matmul", {inTypeOfSum(1), inTypeOfSum(2)}, c.attrs))};
}

Cost costMatmulAdd(const OpCall &c) {
  OpCall product = c;
  product.operands.erase(product.operands.begin());
  Cost cost = costMatmul(product);
  cost.bytes += double(c.operands[0].bytes());
  return cost;
}

} // namespace

void registerMatmulOps(OpRegistry &r) {
  const std::vector<AttrDef> attrs = {
      {"transpose_a", AttrKind::Bool, false, "whether to transpose the last two axes of a first"},
      {"transpose_b", AttrKind::Bool, false, "whether to transpose the last two axes of b first"}};
  r.add(
      {{.name = "matmul",
        .doc = "The product of the matrices in the last two axes, with numpy's broadcasting of "
               "the others. A bias, if given, is added to each row before the result is rounded.",
        .operands = "a b bias?",
        .results = "y",
        .attrs = attrs,
        .traits = kContraction,
        .infer = inferMatmul,
        .vjp = vjpMatmul,
        .inverse = inverseMatmul,
        .inverseHolds = otherIsWeight,
        .inverseError = 1e-5,
        .cost = costMatmul,
        .factors = factorsOfMatmul,
        .accumulation = {"matmul_add", 0},
        .examples =
            {"matmul(f64[2, 3], f64[3, 4])",
             "matmul(f64[3, 2], f64[3, 4]) {transpose_a = true}",
             "matmul(f64[2, 3], f64[4, 3]) {transpose_b = true}",
             "matmul(f64[3, 2], f64[4, 3]) {transpose_a = true, transpose_b = true}",
             "matmul(f64[2, 2, 3], f64[3, 4])",
             "matmul(f64[2, 2, 3], f64[4, 3]) {transpose_b = true}",
             "matmul(f64[2, 3, 2], f64[3, 4]) {transpose_a = true}",
             "matmul(f64[2, 3], f64[2, 3, 4])",
             "matmul(f64[2, 1, 2, 3], f64[3, 3, 2])",
             "matmul(f64[2, 0], f64[0, 3])",
             "matmul(f64[1, 1], f64[1, 1])",
             "matmul(f64[2, 3, 2], f64[2, 4, 3]) {transpose_a = true, transpose_b = true}",
             "matmul(f64[9, 33], f64[33, 17])",
             "matmul(f64[2, 3], f64[3, 4], f64[4])",
             "matmul(f64[3, 2], f64[4, 3], f64[4]) {transpose_a = true, transpose_b = true}",
             "matmul(f64[2, 2, 3], f64[3, 4], f64[4])",
             "matmul(f64[2, 1, 3, 2], f64[3, 3, 2], f64[2]) {transpose_a = true}",
             "matmul(f64[1, 3], f64[3, 1], f64[1])",
             "matmul(f64[2, 0], f64[0, 3], f64[3])",
             "matmul(f64[9, 33], f64[17, 33], f64[17]) {transpose_b = true}",
             "matmul(f64[2, 2, 3], f64[3, 3], f64[3]) {transpose_b = true}",
             "matmul(f64[3, 2], f64[3, 3]) {transpose_a = true}",
             "matmul(f64[3, 2], f64[3, 3], f64[3]) {transpose_a = true, transpose_b = true}",
             "matmul(f64[2, 3, 3], f64[2, 4, 3]) {transpose_a = true, transpose_b = true}",
             "matmul(f64[3, 3], f64[3, 4], f64[4])"}},
       {.name = "matmul_add",
        .doc =
            "c plus the matrix product of a and b. The sum over the inner axis goes on from c: "
            "a product in parts along that axis has the bits of the whole. With factors of 16 "
            "bits c may be f32: the sum, rounded once at its end, has the bits of their product.",
        .operands = "c a b",
        .results = "y",
        .attrs = attrs,
        .traits = kContraction,
        .infer = inferMatmulAdd,
        .expand = expandMatmulAdd,
        .cost = costMatmulAdd,
        .inPlace = {{0, 0}},
        .factors = factorsOfMatmulAdd,
        .examples = {
            "matmul_add(f64[2, 4], f64[2, 3], f64[3, 4])",
            "matmul_add(f64[2, 4], f64[3, 2], f64[4, 3]) {transpose_a = true, transpose_b = true}",
            "matmul_add(f64[2, 2, 4], f64[2, 2, 3], f64[3, 4])",
            "matmul_add(f64[2, 2, 4], f64[2, 3], f64[2, 4, 3]) {transpose_b = true}",
            "matmul_add(f64[2, 3], f64[2, 0], f64[0, 3])",
            "matmul_add(f64[9, 17], f64[33, 9], f64[33, 17]) {transpose_a = true}",
            "matmul_add(f32[9, 17], bf16[33, 9], bf16[33, 17]) {transpose_a = true}",
            "matmul_add(f32[2, 2, 4], f16[2, 2, 3], f16[3, 4])"}}});
  registerLinalgOps(r);
}

} // namespace isthmus
