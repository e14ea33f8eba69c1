#include "ir/onnx/sampling.h"

namespace isthmus::onnx_import {
namespace {

Operand both(NodeContext &n, const Operand &a, const Operand &b) { return n.emit("and", {a, b}); }

Operand within(NodeContext &n, const Operand &x, double low, double high) {
  DType t = x.type.dtype;
  return both(n, n.emit("greater_equal", {x, n.scalarConstant(t, low)}),
              n.emit("less_equal", {x, n.scalarConstant(t, high)}));
}

Operand clamped(NodeContext &n, const Operand &x, double low, double high) {
  return n.emit("clamp", {x}, {{"min", low}, {"max", std::max(low, high)}});
}

// Numbers along the last axis, with the type of `x`.
Operand list(NodeContext &n, const Operand &x, llvm::ArrayRef<double> values) {
  return numbers(n, Type(x.type.dtype, {int64_t(values.size())}), values);
}

// Indices from whole coordinates. A coordinate outside the image reads the nearest element; with
// Beyond::Zeros the tap is masked.
AxisTaps taps(NodeContext &n, const Operand &weights, const Operand &whole, int64_t size,
              Beyond beyond) {
  AxisTaps t{size, weights, {}, {}};
  double last = double(size - 1);
  t.at = n.cast(clamped(n, whole, 0, last), DType::I64);
  if (beyond == Beyond::Zeros)
    t.inside = within(n, whole, 0, last);
  return t;
}

Operand withDims(NodeContext &n, const Operand &x, std::initializer_list<int64_t> dims) {
  return n.failed() || !x.isValid() ? x : n.reshape(x, dims);
}

} // namespace

Operand reflected(NodeContext &n, const Operand &x, double low, double high) {
  double span = high - low;
  if (span <= 0)
    return n.affine(x, 0, 0);
  Operand from = n.emit("abs", {n.affine(x, 1, -low)});
  Operand turns = n.emit("floor", {n.affine(from, 1 / span, 0)});
  Operand rest = n.emit("sub", {from, n.affine(turns, span, 0)});
  Operand half = n.affine(turns, 0.5, 0);
  Operand even = n.emit("equal", {n.emit("floor", {half}), half});
  Operand back = n.emit("where", {even, n.affine(rest, 1, low), n.affine(rest, -1, high)});
  return n.emit("where", {within(n, x, low, high), x, back});
}

AxisTaps nearestTaps(NodeContext &n, const Operand &whole, int64_t size, Beyond beyond) {
  if (n.failed())
    return {size, {}, {}, {}};
  Operand one = n.scalarConstant(whole.type.dtype, 1);
  return taps(n, n.broadcast(one, whole.type.dims), whole, size, beyond);
}

AxisTaps linearTaps(NodeContext &n, const Operand &x, int64_t size, Beyond beyond) {
  Operand floor = n.emit("floor", {x}), part = n.emit("sub", {x, floor});
  Operand weights = n.emit("add", {n.emit("mul", {part, list(n, x, {-1, 1})}), list(n, x, {1, 0})});
  return taps(n, weights, n.emit("add", {floor, list(n, x, {0, 1})}), size, beyond);
}

AxisTaps cubicTaps(NodeContext &n, const Operand &x, int64_t size, Beyond beyond, double low,
                   double high) {
  constexpr double a = -0.75;
  // The weights of the elements 1 + t, t, 1 - t and 2 - t away, as polynomials of t: coefficients
  // from the highest power down.
  const double powers[4][4] = {
      {a, a + 2, -(a + 2), -a}, {-2 * a, -(a + 3), 2 * a + 3, a}, {a, 0, -a, 0}, {0, 1, 0, 0}};
  Operand floor = n.emit("floor", {x}), part = n.emit("sub", {x, floor});
  Operand weights = list(n, x, powers[0]);
  for (int i = 1; i < 4; ++i)
    weights = n.emit("add", {n.emit("mul", {weights, part}), list(n, x, powers[i])});
  Operand whole = n.emit("add", {floor, list(n, x, {-1, 0, 1, 2})});
  if (beyond == Beyond::Reflection)
    whole = reflected(n, whole, low, high);
  return taps(n, weights, whole, size, beyond);
}

AxisTaps product(NodeContext &n, const AxisTaps &outer, const AxisTaps &inner) {
  if (n.failed())
    return outer;
  int64_t batch = outer.at.type.dims[0], points = outer.at.type.dims[1];
  int64_t a = outer.at.type.dims[2], b = inner.at.type.dims[2];
  auto pairs = [&](const char *row, const Operand &x, const Operand &y) {
    Operand z =
        n.emit(row, {withDims(n, x, {batch, points, a, 1}), withDims(n, y, {batch, points, 1, b})});
    return withDims(n, z, {batch, points, a * b});
  };
  AxisTaps t{outer.size * inner.size, pairs("mul", outer.weights, inner.weights), {}, {}};
  Operand rows = n.emit("affine", {outer.at}, {{"scale", double(inner.size)}});
  t.at = pairs("add", rows, inner.at);
  if (outer.inside.isValid() && inner.inside.isValid())
    t.inside = pairs("and", outer.inside, inner.inside);
  return t;
}

Operand places(NodeContext &n, const AxisTaps &taps) {
  if (!taps.inside.isValid())
    return taps.at;
  return n.emit("where", {taps.inside, taps.at, n.scalarConstant(DType::I64, -1)});
}

Operand sampled(NodeContext &n, const Operand &x, llvm::ArrayRef<AxisTaps> axes) {
  AxisTaps all = axes[0];
  for (const AxisTaps &t : axes.drop_front())
    all = product(n, all, t);
  if (n.failed())
    return {};
  Operand image = n.reshape(x, {x.type.dims[0], x.type.dims[1], all.size, 1});
  Operand y = n.emit("interpolate", {image, places(n, all), all.weights});
  return withDims(n, y, {x.type.dims[0], x.type.dims[1], all.at.type.dims[1]});
}

} // namespace isthmus::onnx_import
