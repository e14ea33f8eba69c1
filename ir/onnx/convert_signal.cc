// Fourier transforms of sizes known at import, and their windows and weights. A transform is a
// product with a constant matrix of cosines and sines. It is exact up to rounding and has
// gradients; a fast transform would be neither smaller nor simpler.

#include "ir/builder.h"
#include "ir/onnx/numbers.h"
#include "ir/onnx/op_table.h"
#include <cmath>
#include <numbers>

namespace isthmus::onnx_import {
namespace {

constexpr double kPi = std::numbers::pi;

// --- The matrix

struct Transform {
  int64_t length;          // of the signal over time
  bool inverse, halfAlone; // halfAlone: only the first half of a real signal's frequencies
  int64_t frequencies() const { return halfAlone ? length / 2 + 1 : length; }
  bool toReal() const { return inverse && halfAlone; }
  int64_t in() const { return inverse ? frequencies() : length; }
  int64_t out() const { return inverse ? length : frequencies(); }
};

// [in * parts, out * parts of the result]: real and imaginary parts alternate. `parts` is 1 for a
// real operand. The angle is reduced before it is rounded.
std::vector<double> matrixOf(const Transform &t, int64_t parts) {
  int64_t partsOut = t.toReal() ? 1 : 2, columns = t.out() * partsOut;
  std::vector<double> m(size_t(t.in() * parts * columns));
  for (int64_t i = 0; i < t.in(); ++i) {
    // A frequency that is given once stands for its mirror image too.
    bool twice = t.toReal() && i != 0 && 2 * i != t.length;
    double factor = (t.inverse ? 1 / double(t.length) : 1) * (twice ? 2 : 1);
    for (int64_t o = 0; o < t.out(); ++o) {
      double angle = 2 * kPi * double(i * o % t.length) / double(t.length);
      double c = factor * std::cos(angle), s = factor * std::sin(angle) * (t.inverse ? 1 : -1);
      double *at = &m[size_t(i * parts * columns + o * partsOut)];
      at[0] = c; // (a + bi) (c + si)
      if (partsOut == 2)
        at[1] = s;
      if (parts == 2)
        at[columns] = -s;
      if (parts == 2 && partsOut == 2)
        at[columns + 1] = c;
    }
  }
  return m;
}

bool isSmall(NodeContext &n, const Transform &t) {
  bool small = t.length >= 1 && t.length < int64_t(1) << 24;
  if (!small || !n.state.folding.look(4 * t.in() * t.out()))
    n.fail("expects a transform of a length that fits a model of {0} bytes, got {1}",
           n.state.model.fileBytes, t.length);
  return !n.failed();
}

// --- DFT

// `x` with `size` elements on an axis: cropped, or padded with zeros, at the end.
Operand fit(NodeContext &n, const Operand &x, int64_t axis, int64_t size) {
  Ints low(x.type.dims.size(), 0), limits(x.type.dims.begin(), x.type.dims.end()), high = low;
  int64_t have = x.type.dims[size_t(axis)];
  if (have == size)
    return x;
  if (have > size) {
    limits[size_t(axis)] = size;
    return n.emit("slice", {x}, {{"starts", low}, {"limits", limits}});
  }
  high[size_t(axis)] = size - have;
  return n.emit("pad", {x}, {{"low", low}, {"high", high}});
}

void dft(NodeContext &n, int64_t axis) {
  const Type type = n.in(0).type;
  int64_t rank = type.rank();
  Transform t;
  t.inverse = n.intAttr("inverse", 0) != 0;
  t.halfAlone = n.intAttr("onesided", 0) != 0;
  axis = n.axis(axis, rank);
  if (!n.failed() && (rank < 2 || axis == rank - 1 || type.dims.back() < 1 ||
                      type.dims.back() > 2 || !isFloat(type.dtype)))
    n.fail("expects signals whose last axis holds 1 or 2 parts, and an axis before it, got '{0}'",
           type.str());
  if (n.failed())
    return;
  int64_t size = type.dims[size_t(axis)], parts = type.dims.back();
  t.length = t.toReal() ? 2 * (size - 1) : size;
  if (n.has(1))
    t.length = n.integer(1);
  if (n.failed() || !isSmall(n, t))
    return;
  Operand x = fit(n, n.in(0), axis, t.in());
  if (n.failed())
    return;
  // Moves the axis next to the parts; both are then flattened.
  Ints perm;
  for (int64_t a = 0; a < rank; ++a)
    if (a != axis && a != rank - 1)
      perm.push_back(a);
  perm.insert(perm.end(), {axis, rank - 1});
  bool moves = axis != rank - 2;
  if (moves)
    x = n.transpose(x, perm);
  Dims dims = x.type.dims;
  int64_t partsOut = t.toReal() ? 1 : 2, signals = 1;
  for (int64_t a = 0; a < rank - 2; ++a)
    signals *= dims[size_t(a)];
  Operand m =
      numbers(n, Type(type.dtype, {t.in() * parts, t.out() * partsOut}), matrixOf(t, parts));
  Operand y = n.emit("matmul", {n.reshape(x, {signals, t.in() * parts}), m});
  dims[size_t(rank - 2)] = t.out();
  dims[size_t(rank - 1)] = partsOut;
  y = n.reshape(y, dims);
  if (moves)
    y = n.transpose(y, inversePermutation(perm));
  n.result(0, y);
}

void convertDft17(NodeContext &n) { dft(n, n.intAttr("axis", 1)); }
void convertDft(NodeContext &n) {
  int64_t axis = n.has(2) ? n.integer(2) : -2;
  if (!n.failed())
    dft(n, axis);
}

// --- STFT: a convolution whose kernels are the matrix's columns under the window

void convertStft(NodeContext &n) {
  Operand x = n.in(0);
  if (x.type.rank() == 2) // PyTorch's exporter omits the axis of parts for real signals
    x = n.reshape(x, {x.type.dims[0], x.type.dims[1], 1});
  Transform t;
  t.inverse = false;
  t.halfAlone = n.intAttr("onesided", 1) != 0;
  int64_t step = n.integer(1);
  if (n.failed())
    return;
  if (x.type.rank() != 3 || x.type.dims[2] < 1 || x.type.dims[2] > 2 || !isFloat(x.type.dtype))
    return n.fail("expects signals [batch, length, 1 or 2 parts], got '{0}'", x.type.str());
  int64_t batch = x.type.dims[0], length = x.type.dims[1], parts = x.type.dims[2];
  t.length = n.has(2) && n.in(2).type.rank() == 1 ? n.in(2).type.dims[0] : length;
  if (n.has(3))
    t.length = n.integer(3);
  if (n.has(2) && (n.in(2).type.rank() != 1 || n.in(2).type.dims[0] != t.length))
    n.fail("expects a window as long as a frame, {0}, got '{1}'", t.length, n.in(2).type.str());
  if (!n.failed() && (step < 1 || t.length > length))
    n.fail("expects steps of 1 or more and frames of at most {0}, got {1} and {2}", length, step,
           t.length);
  if (n.failed() || !isSmall(n, t))
    return;
  int64_t channels = 2 * t.out(), frames = (length - t.length) / step + 1;
  // [length * parts, channels] becomes [channels, parts, length].
  Operand m = numbers(n, Type(x.type.dtype, {t.length, parts, channels}), matrixOf(t, parts));
  Operand kernels = n.transpose(m, {2, 1, 0});
  if (n.has(2))
    kernels = n.emit("mul", {kernels, n.cast(n.in(2), x.type.dtype)});
  Operand signal = parts == 1 ? n.reshape(x, {batch, 1, length}) : n.transpose(x, {0, 2, 1});
  Operand y = n.emit("conv", {signal, kernels}, {{"strides", Ints{step}}});
  n.result(0, n.reshape(n.transpose(y, {0, 2, 1}), {batch, frames, t.out(), 2}));
}

// --- Windows

// a - b cos(2 pi i / period) + c cos(4 pi i / period)
void window(NodeContext &n, double a, double b, double c) {
  double size = n.scalar(0);
  bool periodic = n.intAttr("periodic", 1) != 0;
  DType type = n.typeAttr("output_datatype", DType::F32);
  if (!n.failed() && (!(size >= 0 && size < 0x1p31) || !n.state.folding.look(int64_t(size))))
    n.fail("expects a size that fits a model of {0} bytes, got {1}", n.state.model.fileBytes, size);
  if (n.failed())
    return;
  double period = std::max(1.0, periodic ? size : size - 1);
  std::vector<double> w;
  for (double i = 0; i < size; ++i)
    w.push_back(a - b * std::cos(2 * kPi * i / period) + c * std::cos(4 * kPi * i / period));
  n.result(0, numbers(n, Type(type, {int64_t(size)}), w));
}
void convertHann(NodeContext &n) { window(n, 0.5, 0.5, 0); }
void convertHamming(NodeContext &n) { window(n, 25.0 / 46, 21.0 / 46, 0); }
void convertBlackman(NodeContext &n) { window(n, 0.42, 0.5, 0.08); }

// Triangular filters over frequencies. Their peaks are evenly spaced on the mel scale, and each
// filter extends from the previous peak to the next one.
void convertMelWeights(NodeContext &n) {
  double bins = n.scalar(0), length = n.scalar(1), rate = n.scalar(2), low = n.scalar(3),
         high = n.scalar(4);
  DType type = n.typeAttr("output_datatype", DType::F32);
  if (!n.failed() && !(bins >= 1 && bins < 0x1p24 && length >= 1 && length < 0x1p31 && rate > 0 &&
                       low >= 0 && high >= low))
    n.fail("expects positive numbers of bins, a length and a rate, and edges in order, got {0}, "
           "{1}, {2}, {3} and {4}",
           bins, length, rate, low, high);
  if (n.failed())
    return;
  int64_t rows = int64_t(length) / 2 + 1, columns = int64_t(bins);
  if (!n.state.folding.look(rows * columns))
    return n.fail("would give a matrix of {0} x {1}, too large for a model of {2} bytes", rows,
                  columns, n.state.model.fileBytes);
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double step = (mel(high) - mel(low)) / (bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < columns + 2; ++i) {
    double hertz = 700 * (std::pow(10, (double(i) * step + mel(low)) / 2595) - 1);
    edges.push_back(int64_t(std::floor((std::floor(length) + 1) * hertz / rate)));
    if (edges.back() >= rows)
      return n.fail("expects edges up to half the rate, got {0} of {1}", high, rate);
  }
  std::vector<double> m(size_t(rows * columns), 0);
  for (int64_t c = 0; c < columns; ++c) {
    int64_t left = edges[size_t(c)], peak = edges[size_t(c) + 1], right = edges[size_t(c) + 2];
    auto at = [&](int64_t row) -> double & { return m[size_t(row * columns + c)]; };
    for (int64_t r = left; r <= peak; ++r)
      at(r) = left == peak ? 1 : double(r - left) / double(peak - left);
    for (int64_t r = peak; r < right; ++r)
      at(r) = double(right - r) / double(right - peak);
  }
  n.result(0, numbers(n, Type(type, {rows, columns}), m));
}

constexpr OnnxOp kOps[] = {
    {"DFT", 17, 1, 2, 1, convertDft17, kAllButFirst},
    {"DFT", 20, 1, 3, 1, convertDft, kAllButFirst},
    {"STFT", 17, 2, 4, 1, convertStft, 0b1010},
    {"HannWindow", 17, 1, 1, 1, convertHann, kAllOperands},
    {"HammingWindow", 17, 1, 1, 1, convertHamming, kAllOperands},
    {"BlackmanWindow", 17, 1, 1, 1, convertBlackman, kAllOperands},
    {"MelWeightMatrix", 17, 5, 5, 1, convertMelWeights, kAllOperands},
};

} // namespace

OpRows signalOps() { return kOps; }

} // namespace isthmus::onnx_import
