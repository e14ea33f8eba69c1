// Softmax.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// Below opset 13 the operand is taken as a matrix: the axes before `axis` are its rows, the others
// its columns.
void softmax(NodeContext &n, const char *row) {
  const Type &x = n.in(0).type;
  bool asMatrix = n.opset() < 13;
  int64_t axis = n.axis(n.intAttr("axis", asMatrix ? 1 : -1), x.rank());
  if (n.failed())
    return;
  if (!asMatrix || axis == x.rank() - 1)
    return n.result(0, n.emit(row, {n.in(0)}, {{"axis", axis}}));
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    (i < axis ? rows : columns) *= x.dims[size_t(i)];
  Operand y = n.emit(row, {n.reshape(n.in(0), {rows, columns})}, {{"axis", int64_t(1)}});
  n.result(0, n.reshape(y, x.dims));
}
void convertSoftmax(NodeContext &n) { softmax(n, "softmax"); }
void convertLogSoftmax(NodeContext &n) { softmax(n, "log_softmax"); }

constexpr OnnxOp kOps[] = {
    alsoOnScalars({"Softmax", 1, 1, 1, 1, convertSoftmax}),
    alsoOnScalars({"LogSoftmax", 1, 1, 1, 1, convertLogSoftmax}),
};

} // namespace

OpRows softmaxOps() { return kOps; }

} // namespace isthmus::onnx_import
