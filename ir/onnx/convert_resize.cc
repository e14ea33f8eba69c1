// Resize. It treats each axis on its own, and along an axis every result is a fixed combination of
// a few elements: nearest is a gather, linear and cubic are products with a constant matrix.
// Nothing but known rows is needed, and gradients follow.

#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

struct Sampling {
  std::string mode;        // nearest, linear, cubic
  std::string coordinates; // coordinate_transformation_mode
  std::string rounding;    // nearest_mode
  double cubic = -0.75;
  bool excludeOutside = false, antialias = false;
};

struct Axis {
  int64_t from, to; // sizes
  double scale;
};

// Where element `i` of the result lies among the operand's.
double source(const Sampling &s, const Axis &a, int64_t i) {
  double x = double(i);
  if (s.coordinates == "asymmetric")
    return x / a.scale;
  // With the size as rounded: so PyTorch and onnxruntime have it, though not the operator's
  // reference.
  if (s.coordinates == "align_corners")
    return a.to == 1 ? 0 : x * double(a.from - 1) / double(a.to - 1);
  if (s.coordinates == "pytorch_half_pixel" && a.to == 1)
    return 0;
  if (s.coordinates == "half_pixel_symmetric") {
    double whole = a.scale * double(a.from),
           adjust = double(a.to) / whole; // the scale gives a fraction more
    return double(a.from) / 2 * (1 - adjust) + (x + 0.5) / a.scale - 0.5;
  }
  return (x + 0.5) / a.scale - 0.5;
}

int64_t nearest(const Sampling &s, const Axis &a, int64_t i) {
  double x = source(s, a, i), at;
  if (s.rounding == "floor")
    at = std::floor(x);
  else if (s.rounding == "ceil")
    at = std::ceil(x);
  else if (s.rounding == "round_prefer_ceil")
    at = std::floor(x + 0.5);
  else
    at = std::ceil(x - 0.5);
  return std::clamp<int64_t>(int64_t(at), 0, a.from - 1);
}

// The weight of an element at distance `d`: a triangle, or Keys' cubic (1981).
double weight(const Sampling &s, double d) {
  d = std::fabs(d);
  if (s.mode == "linear")
    return std::max(0.0, 1 - d);
  double k = s.cubic;
  if (d <= 1)
    return ((k + 2) * d - (k + 3)) * d * d + 1;
  return d < 2 ? ((k * d - 5 * k) * d + 8 * k) * d - 4 * k : 0;
}

// One row of the matrix. Elements beyond the ends are the end's, unless they are left out. When
// shrinking with antialiasing the weights are spread wider.
void fillRow(const Sampling &s, const Axis &a, int64_t i, std::vector<double> &row) {
  double x = source(s, a, i);
  double spread = s.antialias && a.scale < 1 ? a.scale : 1;
  double reach = (s.mode == "linear" ? 1 : 2) / spread;
  double total = 0;
  std::fill(row.begin(), row.end(), 0.0);
  double first = std::ceil(x - reach), last = std::floor(x + reach);
  if (s.excludeOutside) {
    first = std::max(first, 0.0);
    last = std::min(last, double(a.from - 1));
  }
  for (double j = first; j <= last; ++j) {
    double w = weight(s, (j - x) * spread);
    row[size_t(std::clamp<int64_t>(int64_t(j), 0, a.from - 1))] += w;
    total += w;
  }
  if (total == 0) {
    row[size_t(std::clamp<int64_t>(int64_t(std::clamp(x, -1.0, double(a.from))), 0, a.from - 1))] =
        1;
    return;
  }
  for (double &w : row)
    w /= total;
}

Operand resizeNearest(NodeContext &n, const Operand &x, size_t axis, const Sampling &s,
                      const Axis &a) {
  if (!n.state.folding.take(a.to * 8)) {
    n.fail("would give a result of size {0}, too large for a model of {1} bytes", a.to,
           n.state.model.fileBytes);
    return {};
  }
  Ints indices;
  for (int64_t i = 0; i < a.to; ++i)
    indices.push_back(nearest(s, a, i));
  return n.emit("gather", {x, n.constant(intsTensor(indices))}, {{"axis", int64_t(axis)}});
}

// The axis is brought to the end, multiplied by the matrix [to, from], and brought back; the last
// two axes need no moving.
Operand resizeByMatrix(NodeContext &n, const Operand &x, size_t axis, const Sampling &s,
                       const Axis &a) {
  Type type(DType::F32, {a.to, a.from});
  if (!type.isValid() || !n.state.folding.take(type.bytes())) {
    n.fail("would need a matrix of {0} x {1}, too large for a model of {2} bytes", a.to, a.from,
           n.state.model.fileBytes);
    return {};
  }
  Tensor matrix = Tensor::make(type, [&](char *out) {
    std::vector<double> row(size_t(a.from), 0);
    for (int64_t i = 0; i < a.to; ++i) {
      fillRow(s, a, i, row);
      for (int64_t j = 0; j < a.from; ++j)
        reinterpret_cast<float *>(out)[i * a.from + j] = float(row[size_t(j)]);
    }
  });
  Operand m = n.cast(n.constant(std::move(matrix)), x.type.dtype);
  size_t rank = x.type.dims.size();
  if (rank >= 2 && axis == rank - 1)
    return n.emit("matmul", {x, m}, {{"transpose_b", true}});
  if (rank >= 2 && axis == rank - 2)
    return n.emit("matmul", {m, x});
  Ints perm;
  for (size_t i = 0; i < rank; ++i)
    perm.push_back(int64_t(i));
  std::swap(perm[axis], perm[rank - 1]);
  Operand flipped = rank == 1 ? n.reshape(x, {1, a.from}) : n.transpose(x, perm);
  Operand y = n.emit("matmul", {flipped, m}, {{"transpose_b", true}});
  return rank == 1 ? n.reshape(y, {a.to}) : n.transpose(y, perm);
}

// The axes' new sizes and scales, from the scales or the sizes that the node gives.
std::vector<Axis> newSizes(NodeContext &n, const Floats &scales, const Ints &sizes,
                           const Ints &axes, const std::string &policy) {
  const Type &x = n.in(0).type;
  std::vector<Axis> all;
  for (int64_t d : x.dims)
    all.push_back({d, d, 1});
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis &a = all[size_t(axes[i])];
    double scale = sizes.empty() ? scales[i] : double(sizes[i]) / double(a.from);
    double to = sizes.empty() ? std::floor(double(a.from) * scale) : double(sizes[i]);
    if (!(scale > 0) || !(to >= 0 && to < 0x1p31) || a.from < 1) {
      n.fail("cannot resize axis {0} of '{1}' by {2}", axes[i], x.str(), scale);
      return all;
    }
    a.scale = scale;
    a.to = int64_t(to);
    common = policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
  }
  if (!sizes.empty() && policy != "stretch")
    for (int64_t i : axes) {
      double to = std::floor(double(all[size_t(i)].from) * common + 0.5);
      if (!(to < 0x1p31))
        n.fail("would give a size over 2^31");
      else
        all[size_t(i)].to = int64_t(to);
      all[size_t(i)].scale = common;
    }
  return all;
}

void resize(NodeContext &n, size_t scalesAt, size_t sizesAt) {
  const Type &x = n.in(0).type;
  Sampling s;
  s.mode = n.stringAttr("mode", "nearest");
  s.coordinates =
      n.stringAttr("coordinate_transformation_mode", scalesAt == 1 ? "asymmetric" : "half_pixel");
  s.rounding = n.stringAttr("nearest_mode", scalesAt == 1 ? "floor" : "round_prefer_floor");
  s.cubic = n.floatAttr("cubic_coeff_a", -0.75);
  s.excludeOutside = n.intAttr("exclude_outside", 0) != 0;
  s.antialias = n.intAttr("antialias", 0) != 0;
  std::string policy = n.stringAttr("keep_aspect_ratio_policy", "stretch");
  n.ignoreAttrs({"extrapolation_value"}); // of tf_crop_and_resize alone
  if (s.mode == "bilinear")               // as Upsample was once exported
    s.mode = "linear";
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    n.fail("expects nearest, linear or cubic as attribute 'mode', got '{0}'", s.mode);
  bool known = false;
  for (const char *name :
       {"asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"})
    known |= s.coordinates == name;
  if (!known)
    n.fail("coordinate_transformation_mode '{0}' is not supported", s.coordinates);

  Ints axes, sizes;
  Floats scales;
  if (auto given = n.intsAttr("axes"))
    axes = n.axesFromFront(*given, x.rank());
  else
    for (int64_t a = 0; a < x.rank(); ++a)
      axes.push_back(a);
  if (n.has(sizesAt))
    sizes = n.ints(sizesAt);
  if (sizes.empty() && n.has(scalesAt))
    scales = n.floats(scalesAt);
  if (!n.failed() && (sizes.empty() ? scales.size() : sizes.size()) != axes.size())
    n.fail("expects a scale or a size for each of {0} axes, got {1} and {2}", axes.size(),
           scales.size(), sizes.size());
  if (n.failed())
    return;
  std::vector<Axis> all = newSizes(n, scales, sizes, axes, policy);
  Operand y = n.in(0);
  for (size_t i = 0; i < all.size() && !n.failed(); ++i) {
    const Axis &a = all[i];
    if (a.from == a.to && a.scale == 1)
      continue;
    y = s.mode == "nearest" ? resizeNearest(n, y, i, s, a) : resizeByMatrix(n, y, i, s, a);
  }
  n.result(0, y);
}

void convertResize10(NodeContext &n) { resize(n, 1, kAnyNumber); }
void convertResize(NodeContext &n) { resize(n, 2, 3); }

constexpr OnnxOp kOps[] = {
    {"Upsample", 9, 2, 2, 1, convertResize10, kAllButFirst},
    {"Resize", 10, 2, 2, 1, convertResize10, kAllButFirst},
    {"Resize", 11, 1, 4, 1, convertResize, kAllButFirst},
};

} // namespace

OpRows resizeOps() { return kOps; }

} // namespace isthmus::onnx_import
