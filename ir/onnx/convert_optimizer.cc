// Optimizers of the domain ai.onnx.preview.training. Operands: the rate, the number of updates,
// then the values of all tensors, their gradients, and each kind of state. Results: the values and
// each kind of state.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

void optimizer(NodeContext &n, const char *row, size_t states, const Attrs &attrs) {
  size_t kinds = 2 + states; // operands for each tensor
  size_t tensors = (n.numInputs() - 2) / kinds;
  if (tensors == 0 || (n.numInputs() - 2) % kinds != 0)
    return n.fail("expects {0} operands for each tensor after the first two, got {1} in all", kinds,
                  n.numInputs());
  auto scalar = [&](size_t i) {
    if (n.in(i).type.elements() != 1)
      n.fail("expects one number as operand {0}, got '{1}'", i, n.in(i).type.str());
    return n.reshape(n.in(i), {});
  };
  Operand rate = scalar(0), step = scalar(1);
  for (size_t t = 0; t < tensors && !n.failed(); ++t) {
    llvm::SmallVector<Operand, 6> operands;
    for (size_t k = 0; k < kinds; ++k)
      operands.push_back(n.in(2 + k * tensors + t));
    operands.push_back(rate);
    operands.push_back(step);
    auto results = n.emitAll(row, operands, attrs, Phase::Update);
    for (size_t k = 0; k < 1 + states; ++k)
      n.result(k * tensors + t, results[k]);
  }
}

void convertMomentum(NodeContext &n) {
  std::string mode = n.stringAttr("mode", "standard");
  if (mode != "standard" && mode != "nesterov")
    return n.fail("expects the mode standard or nesterov, got '{0}'", mode);
  optimizer(n, "momentum", 1,
            {{"momentum", n.floatAttr("alpha", 0)},
             {"gain", n.floatAttr("beta", 1)},
             {"nesterov", mode == "nesterov"},
             {"weight_decay", n.floatAttr("norm_coefficient", 0)}});
}

void convertAdagrad(NodeContext &n) {
  optimizer(n, "adagrad", 1,
            {{"epsilon", n.floatAttr("epsilon", 1e-6)},
             {"rate_decay", n.floatAttr("decay_factor", 0)},
             {"weight_decay", n.floatAttr("norm_coefficient", 0)}});
}

void convertAdam(NodeContext &n) {
  optimizer(n, "adam", 2,
            {{"beta1", n.floatAttr("alpha", 0.9)},
             {"beta2", n.floatAttr("beta", 0.999)},
             {"epsilon", n.floatAttr("epsilon", 1e-6)},
             {"epsilon_hat", true},
             {"weight_decay", n.floatAttr("norm_coefficient", 0)},
             {"decay_after", n.floatAttr("norm_coefficient_post", 0)}});
}

constexpr OnnxOp kOps[] = {
    {"ai.onnx.preview.training.Momentum", 1, 5, kAnyNumber, kAnyNumber, convertMomentum,
     kAllOperands},
    {"ai.onnx.preview.training.Adagrad", 1, 5, kAnyNumber, kAnyNumber, convertAdagrad,
     kAllOperands},
    {"ai.onnx.preview.training.Adam", 1, 6, kAnyNumber, kAnyNumber, convertAdam, kAllOperands},
};

} // namespace

OpRows optimizerOps() { return kOps; }

} // namespace isthmus::onnx_import
