// Losses over classes (opset 12 on): SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// The weight of each label's class; zero for labels that do not count, which may be no class.
Operand weightsOf(NodeContext &n, const Operand &labels, const Operand &weights,
                  const Ints &ignore) {
  if (ignore.empty())
    return n.emit("gather", {weights, labels});
  DType type = labels.type.dtype;
  Operand ignored = n.emit("equal", {labels, n.scalarConstant(type, double(ignore[0]))});
  Operand classes = n.emit("where", {ignored, n.scalarConstant(type, 0), labels});
  Operand each = n.emit("gather", {weights, classes});
  return n.emit("where", {ignored, n.scalarConstant(weights.type.dtype, 0), each});
}

// Result 0 of the row, `nll` or `cross_entropy`, on x and the node's labels and weights.
void loss(NodeContext &n, const char *row, const Operand &x) {
  std::string reduction = n.stringAttr("reduction", "mean");
  Ints ignore;
  if (n.hasAttr("ignore_index"))
    ignore.push_back(n.intAttr("ignore_index", 0));
  bool weighted = n.has(2);
  Attrs attrs{{"axis", int64_t(1)},
              {"ignore", ignore},
              {"reduction", weighted ? std::string("none") : reduction}};
  Operand y = n.emitAll(row, {x, n.in(1)}, attrs)[0];
  if (weighted && !n.failed()) {
    const Type &w = n.in(2).type;
    if (w.rank() != 1 || w.dims[0] != x.type.dims[1])
      return n.fail("expects weights of {0} elements, one per class, got '{1}'", x.type.dims[1],
                    w.str());
    Operand each = weightsOf(n, n.in(1), n.cast(n.in(2), y.type.dtype), ignore);
    y = n.emit("mul", {y, each});
    if (reduction != "none")
      y = n.emit("sum", {y});
    if (reduction == "mean")
      y = n.emit("div", {y, n.emit("sum", {each})});
    if (reduction != "none" && reduction != "mean" && reduction != "sum")
      n.fail("expects the reduction mean, sum or none, got '{0}'", reduction);
  }
  n.result(0, n.cast(y, x.type.dtype)); // losses of 16-bit operands are f32 until here
}

void convertNll(NodeContext &n) { loss(n, "nll", n.in(0)); }

// Where the log-probabilities are a result, the loss is taken from them.
void convertCrossEntropy(NodeContext &n) {
  if (!n.wants(1))
    return loss(n, "cross_entropy", n.in(0));
  Operand logProb = n.emit("log_softmax", {n.in(0)}, {{"axis", int64_t(1)}});
  if (n.failed())
    return;
  loss(n, "nll", logProb);
  n.result(1, logProb);
}

constexpr OnnxOp kOps[] = {
    {"SoftmaxCrossEntropyLoss", 12, 2, 3, 2, convertCrossEntropy, kAllButFirst},
    {"NegativeLogLikelihoodLoss", 12, 2, 3, 1, convertNll, kAllButFirst},
};

} // namespace

OpRows lossOps() { return kOps; }

} // namespace isthmus::onnx_import
