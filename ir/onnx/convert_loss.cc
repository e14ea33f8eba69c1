// Losses over classes (opset 12 on): SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// The weight of each label's class; zero for ignored labels, which may be outside the classes.
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

// The operands. As in PyTorch, a single sample may have no batch axis: classes and a scalar label.
struct Sample {
  Operand x, labels;
  bool isAlone = false;
};
Sample sampleOf(NodeContext &n) {
  Sample s{n.in(0), n.in(1), false};
  s.isAlone = s.x.type.rank() == 1;
  if (s.isAlone) {
    Dims dims = s.labels.type.dims; // empty in a valid model
    dims.insert(dims.begin(), 1);
    s.x = n.reshape(s.x, {1, s.x.type.dims[0]});
    s.labels = n.reshape(s.labels, dims);
  }
  return s;
}

// Result 0 of the row, `nll` or `cross_entropy`, on the sample and the node's weights.
void loss(NodeContext &n, const char *row, const Sample &s) {
  const Operand &x = s.x;
  std::string reduction = n.stringAttr("reduction", "mean");
  Ints ignore;
  if (n.hasAttr("ignore_index"))
    ignore.push_back(n.intAttr("ignore_index", 0));
  bool weighted = n.has(2);
  Attrs attrs{{"axis", int64_t(1)},
              {"ignore", ignore},
              {"reduction", weighted ? std::string("none") : reduction}};
  Operand y = n.emitAll(row, {x, s.labels}, attrs)[0];
  if (weighted && !n.failed()) {
    const Type &w = n.in(2).type;
    if (w.rank() != 1 || w.dims[0] != x.type.dims[1])
      return n.fail("expects weights of {0} elements, one per class, got '{1}'", x.type.dims[1],
                    w.str());
    Operand each = weightsOf(n, s.labels, n.cast(n.in(2), y.type.dtype), ignore);
    y = n.emit("mul", {y, each});
    if (reduction != "none")
      y = n.emit("sum", {y});
    if (reduction == "mean")
      y = n.emit("div", {y, n.emit("sum", {each})});
    if (reduction != "none" && reduction != "mean" && reduction != "sum")
      n.fail("expects the reduction mean, sum or none, got '{0}'", reduction);
  }
  if (s.isAlone && reduction == "none")
    y = n.reshape(y, {});
  n.result(0, n.cast(y, x.type.dtype)); // the losses of 16-bit operands are f32
}

void convertNll(NodeContext &n) { loss(n, "nll", sampleOf(n)); }

// If the log-probabilities are a result, the loss is computed from them.
void convertCrossEntropy(NodeContext &n) {
  Sample s = sampleOf(n);
  if (!n.wants(1))
    return loss(n, "cross_entropy", s);
  s.x = n.emit("log_softmax", {s.x}, {{"axis", int64_t(1)}});
  if (n.failed())
    return;
  loss(n, "nll", s);
  n.result(1, n.reshape(s.x, n.in(0).type.dims));
}

constexpr OnnxOp kOps[] = {
    {"SoftmaxCrossEntropyLoss", 12, 2, 3, 2, convertCrossEntropy, kAllButFirst},
    {"NegativeLogLikelihoodLoss", 12, 2, 3, 1, convertNll, kAllButFirst},
};

} // namespace

OpRows lossOps() { return kOps; }

} // namespace isthmus::onnx_import
