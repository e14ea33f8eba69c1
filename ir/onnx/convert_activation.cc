// Activations.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

void convertGelu(NodeContext &n) {
  std::string form = n.stringAttr("approximate", "none");
  n.result(0, n.emit("gelu", {n.in(0)}, {{"approximate", form}}));
}

void convertLeakyRelu(NodeContext &n) {
  n.result(0, n.emit("leaky_relu", {n.in(0)}, {{"alpha", n.floatAttr("alpha", 0.01)}}));
}

// scale x where x is positive, else scale alpha (exp(x / width) - 1). The row needs slopes for
// which the result tells the branches apart. For other slopes the function is composed. Its
// exponent is clamped, because an overflow in the unused branch would make the gradient NaN.
Operand elu(NodeContext &n, double scale, double alpha, double width) {
  const Operand &x = n.in(0);
  if (scale > 0 && alpha / width >= 0)
    return n.emit("elu", {x}, {{"alpha", alpha}, {"scale", scale}, {"width", width}});
  Operand low = n.emit("clamp", {x}, {{"max", 0.0}});
  Operand bent = n.affine(n.emit("expm1", {n.affine(low, 1 / width, 0)}), scale * alpha, 0);
  Operand positive = n.emit("greater", {x, n.scalarConstant(x.type.dtype, 0)});
  return n.emit("where", {positive, n.affine(x, scale, 0), bent});
}
void convertElu(NodeContext &n) { n.result(0, elu(n, 1, n.floatAttr("alpha", 1), 1)); }
void convertSelu(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 1.67326319217681884765625),
         gamma = n.floatAttr("gamma", 1.05070102214813232421875);
  n.result(0, elu(n, gamma, alpha, 1));
}
void convertCelu(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 1);
  if (alpha == 0)
    return n.fail("expects an alpha other than 0");
  n.result(0, elu(n, 1, alpha, alpha));
}

// The slope is a parameter. The row does not take integers, so for these the function is composed.
void convertPRelu(NodeContext &n) {
  const Operand &x = n.in(0);
  Operand slope = n.in(1);
  // Below opset 7 the slope has one number for each channel, or one for all.
  if (n.opset() < 7 && slope.type.elements() > 1 && slope.type.rank() == 1 && x.type.rank() > 1) {
    Dims dims(size_t(x.type.rank() - 1), 1);
    dims[0] = slope.type.dims[0];
    slope = n.reshape(slope, dims);
  }
  if (isFloat(x.type.dtype))
    return n.result(0, n.emit("prelu", {x, slope}));
  Operand positive = n.emit("greater", {x, n.scalarConstant(x.type.dtype, 0)});
  n.result(0, n.emit("where", {positive, x, n.emit("mul", {slope, x})}));
}

void convertThresholdedRelu(NodeContext &n) {
  n.result(0, n.emit("thresholded_relu", {n.in(0)}, {{"alpha", n.floatAttr("alpha", 1)}}));
}
void convertShrink(NodeContext &n) {
  double lambda = n.floatAttr("lambd", 0.5), bias = n.floatAttr("bias", 0);
  Operand x = n.in(0);
  DType type = x.type.dtype;
  // The bias may be a fraction, so integers are computed in f64 and truncated.
  Operand y = n.emit("shrink", {isFloat(type) ? x : n.cast(x, DType::F64)},
                     {{"lambda", lambda}, {"bias", bias}});
  n.result(0, n.cast(y, type));
}
void convertSwish(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 1);
  if (alpha == 1)
    return n.result(0, n.emit("silu", {n.in(0)}));
  n.result(0, n.emit("swish", {n.in(0)}, {{"alpha", alpha}}));
}
void convertHardSigmoid(NodeContext &n) {
  double alpha = n.floatAttr("alpha", 0.2), beta = n.floatAttr("beta", 0.5);
  n.result(0, n.emit("hard_sigmoid", {n.in(0)}, {{"alpha", alpha}, {"beta", beta}}));
}

constexpr OnnxOp kOps[] = {
    unary("Relu", "relu"),
    unary("Sigmoid", "sigmoid"),
    unary("Tanh", "tanh"),
    unary("Softplus", "softplus"),
    unary("Softsign", "softsign"),
    unary("HardSwish", "hard_swish"),
    unary("Mish", "mish"),
    {"Gelu", 1, 1, 1, 1, convertGelu},
    {"LeakyRelu", 1, 1, 1, 1, convertLeakyRelu},
    weighted(0b10, {"PRelu", 1, 2, 2, 1, convertPRelu}),
    {"Elu", 1, 1, 1, 1, convertElu},
    {"Selu", 1, 1, 1, 1, convertSelu},
    {"Celu", 1, 1, 1, 1, convertCelu},
    {"ThresholdedRelu", 1, 1, 1, 1, convertThresholdedRelu},
    {"Shrink", 9, 1, 1, 1, convertShrink},
    {"HardSigmoid", 1, 1, 1, 1, convertHardSigmoid},
    {"Swish", 1, 1, 1, 1, convertSwish},
};

} // namespace

OpRows activationOps() { return kOps; }

} // namespace isthmus::onnx_import
