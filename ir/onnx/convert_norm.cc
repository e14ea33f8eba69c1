// Normalisations.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// --- Batch norm. Its averages are state inputs; in training two update nodes move them.

// Whether the file itself asks for batch statistics: below opset 14, by having more than one
// result.
bool writtenForTraining(NodeContext &n) {
  bool attr = n.intAttr("training_mode", 0) != 0;
  if (n.opset() >= 14)
    return attr;
  return n.numOutputs() > 1;
}

// One more step of the average: `momentum` is the share of the old one, as in ONNX. ONNX and the
// row both take the population's variance.
Operand moved(NodeContext &n, const Operand &old, const Operand &now, double momentum) {
  Attrs attrs{{"momentum", momentum}};
  auto &latest = n.state.runningAverages;
  if (n.failed() || !old.value || !n.state.graph.inputOf(old.value) ||
      n.state.graph.inputOf(old.value)->kind != InputKind::State)
    return n.wants(1) || n.wants(2)
               ? n.emitAll("running_average", {old, now}, attrs, Phase::Update)[0]
               : Operand();
  // A layer that is used twice moves its averages twice.
  ValueId last = latest.count(old.value) ? latest[old.value] : old.value;
  Operand y =
      n.emitAll("running_average", {n.state.values.value(last), now}, attrs, Phase::Update)[0];
  if (!n.failed())
    latest[old.value] = y.value;
  return y;
}

// Operand i as a running average.
Operand average(NodeContext &n, size_t i) {
  const Operand &o = n.in(i);
  ValueId v = o.isConstant() ? o.constant->inGraph : o.value;
  return v && n.state.averages.count(v) ? n.state.averages.lookup(v) : o;
}

void convertBatchNorm(NodeContext &n) {
  double epsilon = n.floatAttr("epsilon", 1e-5), momentum = n.floatAttr("momentum", 0.9);
  if (n.intAttr("spatial", 1) == 0) // below opset 9
    return n.fail("statistics per element (spatial = 0) are not supported");
  bool training = n.state.training(writtenForTraining(n));
  if (n.numOutputs() > 3 && (n.wants(3) || n.wants(4)))
    n.fail("results 3 and 4 (saved statistics) are not supported");
  Operand oldMean = average(n, 3), oldVar = average(n, 4);
  auto y = n.emitAll("batch_norm", {n.in(0), n.in(1), n.in(2), oldMean, oldVar},
                     {{"epsilon", epsilon}, {"training", training}});
  if (n.failed())
    return;
  n.result(0, y[0]);
  if (!training) { // where they are asked for all the same, they stay as they are
    n.result(1, oldMean);
    n.result(2, oldVar);
    return;
  }
  Operand mean = moved(n, oldMean, y[1], momentum), var = moved(n, oldVar, y[2], momentum);
  if (n.wants(1))
    n.result(1, mean);
  if (n.wants(2))
    n.result(2, var);
}

// --- Others, which know no training

void convertLayerNorm(NodeContext &n) {
  n.ignoreAttrs({"stash_type"}); // our statistics are f32 or wider in any case
  int64_t axis = n.axis(n.intAttr("axis", -1), n.in(0).type.rank());
  double epsilon = n.floatAttr("epsilon", 1e-5);
  llvm::SmallVector<Operand, 3> operands = {n.in(0), n.in(1)};
  if (n.has(2))
    operands.push_back(n.in(2));
  auto y = n.emitAll("layer_norm", operands, {{"axis", axis}, {"epsilon", epsilon}});
  for (size_t i = 0; i < 3 && !n.failed(); ++i)
    n.result(i, y[i]);
}

// (x - mean) / sqrt(var + epsilon) over these axes.
Operand standardised(NodeContext &n, const Operand &x, const Ints &axes, double epsilon) {
  Operand centred = n.emit("sub", {x, n.emit("mean", {x}, {{"axes", axes}, {"keepdims", true}})});
  Operand var = n.emit("mean", {n.emit("square", {centred})}, {{"axes", axes}, {"keepdims", true}});
  return n.emit("mul", {centred, n.emit("rsqrt", {n.affine(var, 1, epsilon)})});
}

// `v`, one element per channel, in a shape that broadcasts over [N, C, ...].
Operand perChannel(NodeContext &n, const Operand &v, int64_t rank) {
  Ints dims(size_t(rank - 1), 1);
  if (v.type.rank() == 1)
    dims[0] = v.type.dims[0];
  return n.reshape(v, dims);
}

void convertInstanceNorm(NodeContext &n) {
  const Type &x = n.in(0).type;
  if (x.rank() < 3)
    return n.fail("expects an operand of rank 3 or more, got '{0}'", x.str());
  Ints axes;
  for (int64_t a = 2; a < x.rank(); ++a)
    axes.push_back(a);
  Operand y = standardised(n, n.in(0), axes, n.floatAttr("epsilon", 1e-5));
  y = n.emit("mul", {y, perChannel(n, n.in(1), x.rank())});
  n.result(0, n.emit("add", {y, perChannel(n, n.in(2), x.rank())}));
}

// Below opset 21 scale and bias have one element per group, from there on one per channel.
void convertGroupNorm(NodeContext &n) {
  n.ignoreAttrs({"stash_type"});
  const Type &x = n.in(0).type;
  int64_t groups = n.intAttr("num_groups", 0);
  if (x.rank() < 3 || groups < 1 || x.dims[1] % groups != 0)
    return n.fail("expects a number of groups that divides the channels of '{0}', got {1}", x.str(),
                  groups);
  int64_t inner = x.dims[1] / groups;
  for (int64_t a = 2; a < x.rank(); ++a)
    inner *= x.dims[size_t(a)];
  Operand grouped = n.reshape(n.in(0), {x.dims[0], groups, inner});
  Operand y = standardised(n, grouped, {2}, n.floatAttr("epsilon", 1e-5));
  bool perGroup = n.opset() < 21;
  if (!perGroup)
    y = n.reshape(y, x.dims);
  int64_t rank = perGroup ? 3 : x.rank();
  y = n.emit("mul", {y, perChannel(n, n.in(1), rank)});
  y = n.emit("add", {y, perChannel(n, n.in(2), rank)});
  n.result(0, n.reshape(y, x.dims));
}

void convertRMSNorm(NodeContext &n) {
  n.ignoreAttrs({"stash_type"});
  const Type &x = n.in(0).type;
  Ints axes;
  for (int64_t a = n.axis(n.intAttr("axis", -1), x.rank()); a < x.rank(); ++a)
    axes.push_back(a);
  Operand power =
      n.emit("mean", {n.emit("square", {n.in(0)})}, {{"axes", axes}, {"keepdims", true}});
  Operand rate = n.emit("rsqrt", {n.affine(power, 1, n.floatAttr("epsilon", 1e-5))});
  n.result(0, n.emit("mul", {n.emit("mul", {n.in(0), rate}), n.in(1)}));
}

constexpr uint32_t kStatistics = 1 << 3 | 1 << 4;

constexpr OnnxOp kOps[] = {
    {"BatchNormalization", 7, 5, 5, 5, convertBatchNorm, kStatistics},
    {"LayerNormalization", 17, 2, 3, 3, convertLayerNorm},
    {"InstanceNormalization", 6, 3, 3, 1, convertInstanceNorm},
    {"GroupNormalization", 18, 3, 3, 1, convertGroupNorm},
    {"RMSNormalization", 23, 2, 2, 1, convertRMSNorm},
};

} // namespace

OpRows normOps() { return kOps; }

} // namespace isthmus::onnx_import
