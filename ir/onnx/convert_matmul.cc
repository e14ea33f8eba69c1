// Matrix products.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// A factor, and whether its last two axes are swapped.
struct Factor {
  Operand matrix;
  bool transposed = false;
};

// Looks through a transpose of the last two axes, which the product can do itself: exporters write
// x w^T this way. The transpose then has no reader, unless other nodes read it.
Factor factorOf(NodeContext &n, const Operand &o) {
  const Graph &g = n.state.graph;
  NodeId def = o.value ? g.value(o.value).def : NodeId();
  if (!def || g.node(def).op->name != "transpose" || g.node(def).phase != Phase::Forward)
    return {o, false};
  Ints perm = g.node(def).attrs.getInts("perm");
  size_t rank = perm.size();
  if (rank < 2 || perm[rank - 1] != int64_t(rank) - 2 || perm[rank - 2] != int64_t(rank) - 1)
    return {o, false};
  for (size_t i = 0; i + 2 < rank; ++i)
    if (perm[i] != int64_t(i))
      return {o, false};
  return {n.state.values.value(g.node(def).operands[0]), true};
}

// A vector is a row on the left and a column on the right. Its axis of size one is dropped from the
// result.
void convertMatMul(NodeContext &n) {
  const Type &a = n.in(0).type, &b = n.in(1).type;
  if (a.rank() == 0 || b.rank() == 0)
    return n.fail("expects operands of rank 1 or more, got '{0}' and '{1}'", a.str(), b.str());
  Factor left = a.rank() == 1 ? Factor{n.reshape(n.in(0), {1, a.dims[0]})} : factorOf(n, n.in(0));
  Factor right = b.rank() == 1 ? Factor{n.reshape(n.in(1), {b.dims[0], 1})} : factorOf(n, n.in(1));
  Operand y = n.emit("matmul", {left.matrix, right.matrix},
                     {{"transpose_a", left.transposed}, {"transpose_b", right.transposed}});
  if (n.failed())
    return;
  Dims dims = y.type.dims;
  if (b.rank() == 1)
    dims.pop_back();
  if (a.rank() == 1)
    dims.erase(dims.begin() + (int64_t(dims.size()) - (b.rank() == 1 ? 1 : 2)));
  n.result(0, n.reshape(y, dims));
}

// alpha a b + beta c, with either matrix transposed.
void convertGemm(NodeContext &n) {
  const Type &a = n.in(0).type, &b = n.in(1).type;
  if (a.rank() != 2 || b.rank() != 2)
    return n.fail("expects matrices, got '{0}' and '{1}'", a.str(), b.str());
  bool transA = n.intAttr("transA", 0) != 0, transB = n.intAttr("transB", 0) != 0;
  double alpha = n.floatAttr("alpha", 1), beta = n.floatAttr("beta", 1);
  if (n.opset() < 7)
    n.ignoreAttrs({"broadcast"}); // numpy's rule includes all that the attribute allows
  Operand y =
      n.emit("matmul", {n.in(0), n.in(1)}, {{"transpose_a", transA}, {"transpose_b", transB}});
  y = n.affine(y, alpha, 0);
  if (n.has(2) && beta != 0)
    y = n.emit("add", {y, n.affine(n.in(2), beta, 0)});
  n.result(0, y);
}

constexpr OnnxOp kOps[] = {
    {"Det", 11, 1, 1, 1, nullptr, 0, "det"},
    weighted(0b11, {"MatMul", 1, 2, 2, 1, convertMatMul}),
    weighted(0b111, {"Gemm", 1, 2, 3, 1, convertGemm}),
};

} // namespace

OpRows matmulOps() { return kOps; }

} // namespace isthmus::onnx_import
