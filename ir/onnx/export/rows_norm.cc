// Normalizations and softmax, as standard operators.

#include "ir/onnx/export/body.h"
#include "ir/rank.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

Name reduce(const RowWriter &w, const char *op, const Name &x, const Ints &axes, bool keep) {
  return w.b.emit(op, {x, w.b.ints(axes)}, {{"keepdims", int64_t(keep)}});
}

// --- Batch norm: statistics of all axes but the second

Names batchNorm(const RowWriter &w) {
  const Type &x = w.type(0);
  Ints channel(size_t(x.rank()), 1), axes{0};
  channel[1] = x.dims[1];
  for (int64_t i = 2; i < x.rank(); ++i)
    axes.push_back(i);
  Name mean = w.x(3), var = w.x(4);
  if (!w.attrs.getBool("training")) {
    Name y = w.b.emit("BatchNormalization", {w.x(0), w.x(1), w.x(2), mean, var},
                      {{"epsilon", w.attrs.getFloat("epsilon")}});
    return {y, mean, var};
  }
  Name m = reduce(w, "ReduceMean", w.x(0), axes, true);
  Name centred = w.b.emit("Sub", {w.x(0), m});
  Name v = reduce(w, "ReduceMean", w.b.emit("Mul", {centred, centred}), axes, true);
  Name deviation = w.b.emit("Sqrt", {w.b.emit("Add", {v, w.number(w.attrs.getFloat("epsilon"))})});
  Name scaled =
      w.b.emit("Mul", {w.b.emit("Div", {centred, deviation}), w.reshape(w.x(1), channel)});
  Name y = w.b.emit("Add", {scaled, w.reshape(w.x(2), channel)});
  return {y, w.reshape(m, w.results[1].dims), w.reshape(v, w.results[2].dims)};
}

// --- Layer norm

Names layerNorm(const RowWriter &w) {
  const Type &x = w.type(0);
  int64_t axis = w.attrs.getInt("axis");
  double epsilon = w.attrs.getFloat("epsilon");
  // ONNX gives the statistics in f32, for every type of operand.
  if (w.results[1].dtype == DType::F32) {
    Names in{w.x(0), w.x(1)};
    if (w.has(2))
      in.push_back(w.x(2));
    return w.b.emitAll("LayerNormalization", in, 3, {{"axis", axis}, {"epsilon", epsilon}});
  }
  if (w.results[1].dtype != x.dtype)
    return {};
  Ints axes = sequence(axisFromFront(axis, x.rank()), x.rank());
  Name mean = reduce(w, "ReduceMean", w.x(0), axes, true);
  Name centred = w.b.emit("Sub", {w.x(0), mean});
  Name var = reduce(w, "ReduceMean", w.b.emit("Mul", {centred, centred}), axes, true);
  Name rstd =
      w.b.emit("Reciprocal", {w.b.emit("Sqrt", {w.b.emit("Add", {var, w.number(epsilon)})})});
  Name y = w.b.emit("Mul", {w.b.emit("Mul", {centred, rstd}), w.x(1)});
  if (w.has(2))
    y = w.b.emit("Add", {y, w.x(2)});
  return {y, mean, rstd};
}

// --- Softmax

Names softmax(const RowWriter &w) {
  Name y = w.b.emit("Softmax", {w.x(0)}, {{"axis", w.attrs.getInt("axis")}});
  if (!w.attrs.getBool("zero_if_masked"))
    return {y};
  return {w.b.emit("Where", {w.b.emit("IsNaN", {y}), w.number(0), y})};
}
Names logSoftmax(const RowWriter &w) {
  return {w.b.emit("LogSoftmax", {w.x(0)}, {{"axis", w.attrs.getInt("axis")}})};
}

constexpr ExportRow kRows[] = {
    {"batch_norm", batchNorm, /*mayIgnore=*/true}, // training ignores the averages
    {"layer_norm", layerNorm},
    {"softmax", softmax},
    {"log_softmax", logSoftmax},
};

} // namespace

ExportRows normRows() { return kRows; }

} // namespace isthmus::onnx_export
