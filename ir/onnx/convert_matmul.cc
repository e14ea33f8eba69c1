// Matrix products.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// A vector is a row on the left and a column on the right, and its axis of one is dropped again.
void convertMatMul(NodeContext &n) {
  const Type &a = n.in(0).type, &b = n.in(1).type;
  if (a.rank() == 0 || b.rank() == 0)
    return n.fail("expects operands of rank 1 or more, got '{0}' and '{1}'", a.str(), b.str());
  Operand left = a.rank() == 1 ? n.reshape(n.in(0), {1, a.dims[0]}) : n.in(0);
  Operand right = b.rank() == 1 ? n.reshape(n.in(1), {b.dims[0], 1}) : n.in(1);
  Operand y = n.emit("matmul", {left, right});
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
    n.ignoreAttrs({"broadcast"}); // numpy's rule takes all that it allows
  Operand y =
      n.emit("matmul", {n.in(0), n.in(1)}, {{"transpose_a", transA}, {"transpose_b", transB}});
  y = n.affine(y, alpha, 0);
  if (n.has(2) && beta != 0)
    y = n.emit("add", {y, n.affine(n.in(2), beta, 0)});
  n.result(0, y);
}

constexpr OnnxOp kOps[] = {
    {"Det", 11, 1, 1, 1, nullptr, 0, "det"},
    {"MatMul", 1, 2, 2, 1, convertMatMul},
    {"Gemm", 1, 2, 3, 1, convertGemm},
};

} // namespace

OpRows matmulOps() { return kOps; }

} // namespace isthmus::onnx_import
