// Normalizations.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// --- Batch norm. Its averages are state inputs. If the file trains, two update nodes update them.

// Whether the file asks for batch statistics. From opset 7 to 13, more than one result means so.
bool writtenForTraining(NodeContext &n) {
  bool attr = n.intAttr("training_mode", 0) != 0;
  if (n.opset() >= 14)
    return attr;
  if (n.opset() < 7)
    return n.intAttr("is_test", 0) == 0;
  return n.numOutputs() > 1;
}

// Whether `o` is a state input, carried from step to step, which needs an update.
bool isState(const NodeContext &n, const Operand &o) {
  const Input *input = o.value ? n.state.graph.inputOf(o.value) : nullptr;
  return input && input->kind == InputKind::State;
}

// The update of an average. `momentum` is the weight of the old average, as in ONNX. ONNX and the
// row both use the population variance.
Operand moved(NodeContext &n, const Operand &old, const Operand &now, double momentum) {
  Attrs attrs{{"momentum", momentum}};
  auto &latest = n.state.runningAverages;
  if (n.failed() || !isState(n, old))
    return n.wants(1) || n.wants(2)
               ? n.emitAll("running_average", {old, now}, attrs, Phase::Update)[0]
               : Operand();
  // A layer that is used twice updates its averages twice.
  ValueId last = latest.count(old.value) ? latest[old.value] : old.value;
  Operand y =
      n.emitAll("running_average", {n.state.values.value(last), now}, attrs, Phase::Update)[0];
  if (!n.failed())
    latest[old.value] = y.value;
  return y;
}

// Operand i as a running average. A parameter has a separate state input for this.
Operand average(NodeContext &n, size_t i) {
  const Operand &o = n.in(i);
  ValueId v = o.isConstant() ? o.constant->inGraph : o.value;
  return v && n.state.averages.count(v) ? n.state.averages.lookup(v) : o;
}

void convertBatchNorm(NodeContext &n) {
  double epsilon = n.floatAttr("epsilon", 1e-5), momentum = n.floatAttr("momentum", 0.9);
  n.ignoreAttrs({"consumed_inputs"}); // below opset 6
  if (n.intAttr("spatial", 1) == 0)   // below opset 9
    return n.fail("statistics per element (spatial = 0) are not supported");
  bool training = writtenForTraining(n);
  Operand oldMean = average(n, 3), oldVar = average(n, 4), x = n.in(0);
  Dims dims = x.type.dims;
  if (dims.size() == 1) // one channel, by the definition
    x = n.reshape(x, {dims[0], 1});
  Attrs attrs{{"epsilon", epsilon}, {"training", training}};
  if (isState(n, oldMean) || isState(n, oldVar))
    attrs.set("momentum", momentum);
  auto y = n.emitAll("batch_norm", {x, n.in(1), n.in(2), oldMean, oldVar}, std::move(attrs));
  if (n.failed())
    return;
  n.result(0, n.reshape(y[0], dims));
  n.result(3, y[1]); // statistics for a backward pass, below opset 14
  n.result(4, y[2]);
  if (!training) { // requested averages are unchanged
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

// --- Norms without a training mode

// Scale and bias of a norm over the axes from `axis` on may have any shape that broadcasts to x.
// The rows only take the shape of the normalized axes. Others are applied after a norm with a scale
// of one.
struct ScaleAndBias {
  Operand scale, bias; // for the row
  bool after = false;  // the node's scale and bias are still to be applied

  ScaleAndBias(NodeContext &n, int64_t axis) {
    const Dims &x = n.in(0).type.dims;
    Dims inner(x.begin() + axis, x.end());
    auto fits = [&](size_t i) {
      const Dims &d = n.in(i).type.dims;
      size_t extra = d.size() > inner.size() ? d.size() - inner.size() : 0;
      for (size_t k = 0; k < extra; ++k)
        if (d[k] != 1)
          return false;
      return true;
    };
    auto wide = [&](size_t i) {
      const Dims &d = n.in(i).type.dims;
      size_t extra = d.size() > inner.size() ? d.size() - inner.size() : 0;
      return n.broadcast(n.reshape(n.in(i), llvm::makeArrayRef(d).drop_front(extra)), inner);
    };
    after = !fits(1) || (n.has(2) && !fits(2));
    if (after) {
      scale = n.full(Type(n.in(1).type.dtype, inner), 1);
      return;
    }
    scale = wide(1);
    if (n.has(2))
      bias = wide(2);
  }
  Operand applied(NodeContext &n, const Operand &y) const {
    if (!after || n.failed())
      return y;
    Operand out = n.emit("mul", {y, n.cast(n.in(1), y.type.dtype)});
    return n.has(2) ? n.emit("add", {out, n.cast(n.in(2), y.type.dtype)}) : out;
  }
};

void convertLayerNorm(NodeContext &n) {
  n.ignoreAttrs({"stash_type"}); // the row's statistics are always f32 or wider
  int64_t axis = n.axis(n.intAttr("axis", -1), n.in(0).type.rank());
  double epsilon = n.floatAttr("epsilon", 1e-5);
  if (n.failed())
    return;
  ScaleAndBias vectors(n, axis);
  llvm::SmallVector<Operand, 3> operands = {n.in(0), vectors.scale};
  if (vectors.bias.isValid())
    operands.push_back(vectors.bias);
  auto y = n.emitAll("layer_norm", operands, {{"axis", axis}, {"epsilon", epsilon}});
  n.result(0, vectors.applied(n, y[0]));
  for (size_t i = 1; i < 3 && !n.failed(); ++i)
    if (n.wants(i)) // in the type that the node asks for
      n.result(i, n.cast(y[i], n.typeAttr("stash_type", DType::F32)));
}

void convertRMSNorm(NodeContext &n) {
  n.ignoreAttrs({"stash_type"});
  int64_t axis = n.axis(n.intAttr("axis", -1), n.in(0).type.rank());
  double epsilon = n.floatAttr("epsilon", 1e-5);
  if (n.failed())
    return;
  ScaleAndBias vectors(n, axis);
  Operand y = n.emit("rms_norm", {n.in(0), vectors.scale}, {{"axis", axis}, {"epsilon", epsilon}});
  n.result(0, vectors.applied(n, y));
}

void groupNorm(NodeContext &n, int64_t groups, const Operand &scale, const Operand &bias) {
  double epsilon = n.floatAttr("epsilon", 1e-5);
  n.result(0, n.emitAll("group_norm", {n.in(0), scale, bias},
                        {{"groups", groups}, {"epsilon", epsilon}})[0]);
}

void convertInstanceNorm(NodeContext &n) {
  const Type &x = n.in(0).type;
  if (x.rank() < 3)
    return n.fail("expects an operand of rank 3 or more, got '{0}'", x.str());
  groupNorm(n, x.dims[1], n.in(1), n.in(2));
}

void convertGroupNorm(NodeContext &n) {
  n.ignoreAttrs({"stash_type"});
  groupNorm(n, n.intAttr("num_groups", 0), n.in(1), n.in(2));
}

// Below opset 21 scale and bias have one element per group.
void convertGroupNorm18(NodeContext &n) {
  const Type &x = n.in(0).type;
  int64_t groups = n.intAttr("num_groups", 0);
  if (x.rank() < 3 || groups < 1 || x.dims[1] % groups != 0)
    return n.fail("expects a number of groups that divides the channels of '{0}', got {1}", x.str(),
                  groups);
  auto perChannel = [&](size_t i) {
    const Type &t = n.in(i).type;
    if (t.rank() != 1 || t.dims[0] != groups)
      n.fail("expects '{0}' of {1} elements, one per group, got '{2}'", n.proto.input(int(i)),
             groups, t.str());
    Operand wide = n.broadcast(n.reshape(n.in(i), {groups, 1}), {groups, x.dims[1] / groups});
    return n.reshape(wide, {x.dims[1]});
  };
  Operand scale = perChannel(1), bias = perChannel(2);
  groupNorm(n, groups, scale, bias);
}

void convertLrn(NodeContext &n) {
  n.result(0, n.emit("lrn", {n.in(0)},
                     {{"size", n.intAttr("size", 0)},
                      {"alpha", n.floatAttr("alpha", 1e-4)},
                      {"beta", n.floatAttr("beta", 0.75)},
                      {"bias", n.floatAttr("bias", 1)}}));
}

// Where the norm is zero, so is the result.
void convertLpNorm(NodeContext &n) {
  int64_t axis = n.axis(n.intAttr("axis", -1), n.in(0).type.rank()), p = n.intAttr("p", 2);
  if (p != 1 && p != 2)
    return n.fail("expects p to be 1 or 2, got {0}", p);
  Attrs along{{"axes", Ints{axis}}, {"keepdims", true}};
  Operand x = n.in(0);
  Operand sum = n.emit("sum", {n.emit(p == 1 ? "abs" : "square", {x})}, along);
  if (n.failed())
    return;
  // A sum of zero is replaced by one before the root, because the root's gradient at zero is
  // infinite.
  Operand isZero = n.emit("equal", {sum, n.scalarConstant(x.type.dtype, 0)});
  Operand norm = n.emit("where", {isZero, n.scalarConstant(x.type.dtype, 1), sum});
  n.result(0, n.emit("div", {x, p == 1 ? norm : n.emit("sqrt", {norm})}));
}

// (x - mean) / (sqrt(var) + 1e-9): ONNX adds 1e-9 to the deviation, not to the variance.
void convertMeanVariance(NodeContext &n) {
  const Type &x = n.in(0).type;
  Ints axes = n.axesFromFront(n.intsAttr("axes").value_or(Ints{0, 2, 3}), x.rank());
  Attrs over{{"axes", axes}, {"keepdims", true}};
  Operand centred = n.emit("sub", {n.in(0), n.emit("mean", {n.in(0)}, over)});
  Operand var = n.emit("mean", {n.emit("square", {centred})}, over);
  n.result(0, n.emit("div", {centred, n.affine(n.emit("sqrt", {var}), 1, 1e-9)}));
}

constexpr uint32_t kStatistics = 1 << 3 | 1 << 4;

constexpr OnnxOp kOps[] = {
    weighted(0b110, {"BatchNormalization", 1, 5, 5, 5, convertBatchNorm, kStatistics}),
    weighted(0b110, {"LayerNormalization", 17, 2, 3, 3, convertLayerNorm}),
    weighted(0b110, {"InstanceNormalization", 6, 3, 3, 1, convertInstanceNorm}),
    weighted(0b110, {"GroupNormalization", 18, 3, 3, 1, convertGroupNorm18}),
    weighted(0b110, {"GroupNormalization", 21, 3, 3, 1, convertGroupNorm}),
    weighted(0b110, {"RMSNormalization", 23, 2, 2, 1, convertRMSNorm}),
    {"LRN", 1, 1, 1, 1, convertLrn},
    alsoOnScalars({"LpNormalization", 1, 1, 1, 1, convertLpNorm}),
    {"MeanVarianceNormalization", 9, 1, 1, 1, convertMeanVariance},
};

} // namespace

OpRows normOps() { return kOps; }

} // namespace isthmus::onnx_import
