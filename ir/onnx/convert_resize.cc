// Resize. Each axis is resized separately, and every result along an axis is a fixed combination of
// a few elements: nearest is a gather; linear and cubic are the row `interpolate` with constant
// indices and weights. Both have gradients.

#include "ir/onnx/numbers.h"
#include "ir/onnx/op_table.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// Opset 10 has no attribute for the rounding. Its test resize_downsample_nearest and ONNX Runtime
// round up where an axis gets smaller, and down where it gets larger.
constexpr const char *kOfOpset10 = "up_if_smaller";

struct Sampling {
  std::string mode;        // nearest, linear, cubic
  std::string coordinates; // coordinate_transformation_mode
  std::string rounding;    // nearest_mode, or kOfOpset10
  double cubic = -0.75;
  bool excludeOutside = false, antialias = false;
};

struct Axis {
  int64_t from, to; // sizes
  double scale;
  double length;             // the new size before rounding
  double start = 0, end = 1; // the part that tf_crop_and_resize reads
  bool isScaled = false;     // the node gives a scale, not a size

  bool whole() const { return start == 0 && end == 1; }
};

// The coordinate in the operand for element `i` of the result.
template <typename Real> Real source(const Sampling &s, const Axis &a, int64_t i) {
  Real x = Real(i), from = Real(a.from), length = Real(a.length), half = Real(0.5);
  // From the sizes, with one rounding: element 9 of 18 is exactly element 7 of 14.
  auto unscaled = [&](Real at) { return a.isScaled ? at / Real(a.scale) : at * from / length; };
  if (s.coordinates == "asymmetric")
    return unscaled(x);
  if (s.coordinates == "tf_half_pixel_for_nn") // opset 11 only
    return unscaled(x + half);
  if (s.coordinates == "align_corners")
    return length == 1 ? 0 : x * (from - 1) / (length - 1);
  Real start = Real(a.start), end = Real(a.end);
  if (s.coordinates == "tf_crop_and_resize")
    return a.to == 1 ? (start + end) * (from - 1) / 2
                     : start * (from - 1) + x * (end - start) * (from - 1) / Real(a.to - 1);
  if (s.coordinates == "pytorch_half_pixel" && a.to == 1)
    return 0;
  if (s.coordinates == "half_pixel_symmetric")
    return from / 2 * (1 - Real(a.to) / length) + unscaled(x + half) - half;
  return unscaled(x + half) - half;
}

// Scales are f32, and evaluators also compute coordinates in f32: with the scale 0.6, element 3 is
// element 5 of the operand, whereas the exact quotient is below 5.
int64_t nearest(const Sampling &s, const Axis &a, int64_t i) {
  double x = a.isScaled ? double(source<float>(s, a, i)) : source<double>(s, a, i), at;
  if (s.rounding == "floor" || (s.rounding == kOfOpset10 && a.scale >= 1))
    at = std::floor(x);
  else if (s.rounding == "ceil" || s.rounding == kOfOpset10)
    at = std::ceil(x);
  else if (s.rounding == "round_prefer_ceil")
    at = std::floor(x + 0.5);
  else
    at = std::ceil(x - 0.5);
  return int64_t(std::clamp(at, 0.0, double(a.from - 1)));
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

// The elements that result `i` combines, and their weights. Elements beyond an end repeat the end's
// element, unless they are excluded. Shrinking with antialiasing widens the weights.
struct Taps {
  Ints at;
  std::vector<double> weights;
};

Taps tapsOf(const Sampling &s, const Axis &a, int64_t i) {
  Taps taps;
  double x = source<double>(s, a, i), most = double(a.from - 1);
  double spread = s.antialias && a.scale < 1 ? a.scale : 1;
  double reach = (s.mode == "linear" ? 1 : 2) / spread;
  double total = 0;
  double first = std::ceil(x - reach), last = std::floor(x + reach);
  if (s.excludeOutside) {
    first = std::max(first, 0.0);
    last = std::min(last, most);
  }
  // All elements beyond one end are one tap.
  auto add = [&](double j, double w) {
    auto at = int64_t(std::clamp(j, 0.0, most));
    if (!taps.at.empty() && taps.at.back() == at)
      taps.weights.back() += w;
    else if (w != 0) {
      taps.at.push_back(at);
      taps.weights.push_back(w);
    }
    total += w;
  };
  for (double j = first; j <= last; ++j)
    add(j, weight(s, (j - x) * spread));
  if (total == 0) {
    taps.at.assign(1, int64_t(std::clamp(x, 0.0, most)));
    taps.weights.assign(1, 1);
    return taps;
  }
  for (double &w : taps.weights)
    w /= total;
  return taps;
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

// A reshape makes the axis axis 2 of the row's operand.
Operand resizeByWeights(NodeContext &n, const Operand &x, size_t axis, const Sampling &s,
                        const Axis &a) {
  // A bound on the number of elements that one result combines, and so on the constants' sizes.
  double spread = s.antialias && a.scale < 1 ? a.scale : 1;
  double reach = 2 * (s.mode == "linear" ? 1 : 2) / spread + 1;
  constexpr int64_t kBytesEach = 16; // an index and a weight
  if (reach > 0x1p31 || !n.state.folding.take(a.to * int64_t(reach) * kBytesEach)) {
    n.fail("would need {0} weights for each of {1} results, too many for a model of {2} bytes",
           reach, a.to, n.state.model.fileBytes);
    return {};
  }
  std::vector<Taps> all;
  size_t most = 1;
  for (int64_t i = 0; i < a.to; ++i) {
    all.push_back(tapsOf(s, a, i));
    most = std::max(most, all.back().at.size());
  }
  Ints at;
  std::vector<double> weights;
  for (Taps &t : all) {
    t.at.resize(most, -1); // an index of -1 adds nothing
    t.weights.resize(most, 0);
    at.insert(at.end(), t.at.begin(), t.at.end());
    weights.insert(weights.end(), t.weights.begin(), t.weights.end());
  }
  Dims list = {1, a.to, int64_t(most)};
  DType wide = x.type.dtype == DType::F64 ? DType::F64 : DType::F32;
  Operand places = numbers(n, list, at), shares = numbers(n, Type(wide, list), weights);
  int64_t before = 1, after = 1;
  for (size_t i = 0; i < x.type.dims.size(); ++i)
    if (i != axis)
      (i < axis ? before : after) *= x.type.dims[i];
  Operand y = n.emit("interpolate", {n.reshape(x, {1, before, a.from, after}), places, shares});
  Dims dims = x.type.dims;
  dims[axis] = a.to;
  return n.reshape(y, dims);
}

// Replaces results from outside the operand by `value`.
Operand extrapolate(NodeContext &n, const Operand &y, size_t axis, const Sampling &s, const Axis &a,
                    double value) {
  std::vector<double> outside;
  for (int64_t i = 0; i < a.to; ++i) {
    double x = source<double>(s, a, i);
    outside.push_back(x < 0 || x > double(a.from - 1));
  }
  if (llvm::none_of(outside, [](double o) { return o != 0; }))
    return y;
  Dims dims(y.type.dims.size(), 1);
  dims[axis] = a.to;
  return n.emit("where", {numbers(n, Type(DType::Bool, dims), outside),
                          n.scalarConstant(y.type.dtype, value), y});
}

// The axes' new sizes and scales, from the scales or the sizes that the node gives.
void setSizes(NodeContext &n, const Sampling &s, std::vector<Axis> &all, const Floats &scales,
              const Ints &sizes, const Ints &axes, const std::string &policy) {
  bool smallest = policy == "not_larger";
  // With align_corners, PyTorch uses the rounded size. Otherwise the fraction that a scale leaves
  // counts, as in ONNX's reference.
  bool isWhole = s.coordinates == "align_corners" && n.state.model.isByTorch();
  double common = smallest ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis &a = all[size_t(axes[i])];
    a.scale = sizes.empty() ? scales[i] : double(sizes[i]) / double(a.from);
    a.length = sizes.empty() ? double(a.from) * (a.end - a.start) * a.scale : double(sizes[i]);
    if (!(a.scale > 0) || !(a.length >= 0 && a.length < 0x1p31) || a.from < 1)
      return n.fail("cannot resize axis {0} of '{1}' by {2}", axes[i], n.in(0).type.str(), a.scale);
    // Rounded to f32, like the scales: 10 elements times 0.7 are 7.
    a.to = sizes.empty() && a.length < 0x1p20 ? int64_t(float(a.length)) : int64_t(a.length);
    a.isScaled = sizes.empty();
    if (isWhole)
      a.length = double(a.to);
    common = smallest ? std::min(common, a.scale) : std::max(common, a.scale);
  }
  if (sizes.empty() || policy == "stretch")
    return;
  for (int64_t i : axes) {
    Axis &a = all[size_t(i)];
    a.scale = common;
    a.length = double(a.from) * common;
    if (!(a.length < 0x1p31))
      return n.fail("would give a size over 2^31");
    a.to = int64_t(std::floor(a.length + 0.5));
  }
}

// `coordinates` and `rounding` are what the node means where it does not say.
Sampling samplingOf(NodeContext &n, const char *coordinates, const char *rounding) {
  Sampling s;
  s.mode = n.stringAttr("mode", "nearest");
  s.coordinates = n.stringAttr("coordinate_transformation_mode", coordinates);
  s.rounding = n.stringAttr("nearest_mode", rounding);
  s.cubic = n.floatAttr("cubic_coeff_a", -0.75);
  s.excludeOutside = n.intAttr("exclude_outside", 0) != 0;
  s.antialias = n.intAttr("antialias", 0) != 0;
  if (s.mode == "bilinear") // older exports of Upsample
    s.mode = "linear";
  auto oneOf = [&](llvm::StringRef attr, llvm::StringRef got,
                   std::initializer_list<llvm::StringRef> known) {
    if (!llvm::is_contained(known, got))
      n.fail("expects {0} as attribute '{1}', got '{2}'", llvm::join(known, ", "), attr, got);
  };
  oneOf("mode", s.mode, {"nearest", "linear", "cubic"});
  oneOf("coordinate_transformation_mode", s.coordinates,
        {"asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric",
         "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  if (s.rounding != kOfOpset10)
    oneOf("nearest_mode", s.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  return s;
}

// Sets the part of each axis that tf_crop_and_resize reads.
void setParts(NodeContext &n, std::vector<Axis> &all, const Ints &axes) {
  Floats parts = n.floats(1);
  if (!n.failed() && parts.size() != 2 * axes.size())
    n.fail("expects a start and an end for each of {0} axes in 'roi', got {1} numbers", axes.size(),
           parts.size());
  for (size_t i = 0; i < axes.size() && !n.failed(); ++i) {
    all[size_t(axes[i])].start = parts[i];
    all[size_t(axes[i])].end = parts[axes.size() + i];
  }
}

void resize(NodeContext &n, const Sampling &s, const Floats &scales, const Ints &sizes) {
  const Operand &x = n.in(0);
  std::string policy = n.stringAttr("keep_aspect_ratio_policy", "stretch");
  double outside = n.floatAttr("extrapolation_value", 0);
  bool crops = s.coordinates == "tf_crop_and_resize";
  Ints axes;
  if (auto given = n.intsAttr("axes"))
    axes = n.axesFromFront(*given, x.type.rank());
  else
    for (int64_t a = 0; a < x.type.rank(); ++a)
      axes.push_back(a);
  if (!n.failed() && (sizes.empty() ? scales.size() : sizes.size()) != axes.size())
    n.fail("expects a scale or a size for each of {0} axes, got {1} and {2}", axes.size(),
           scales.size(), sizes.size());
  std::vector<Axis> all;
  for (int64_t d : x.type.dims)
    all.push_back({d, d, 1, double(d)});
  if (crops && !n.failed())
    setParts(n, all, axes);
  if (!n.failed())
    setSizes(n, s, all, scales, sizes, axes, policy);
  if (n.failed())
    return;
  bool nearest = s.mode == "nearest", counts = !nearest && !isFloat(x.type.dtype);
  Operand y = counts ? n.cast(x, DType::F64) : x;
  for (size_t i = 0; i < all.size() && !n.failed(); ++i) {
    const Axis &a = all[i];
    if (a.from == a.to && a.scale == 1 && a.whole())
      continue;
    y = nearest ? resizeNearest(n, y, i, s, a) : resizeByWeights(n, y, i, s, a);
  }
  for (size_t i = 0; i < all.size() && crops && !n.failed(); ++i)
    y = extrapolate(n, y, i, s, all[i], outside);
  n.result(0, n.cast(y, x.type.dtype));
}

// ONNX defines Upsample for scales of 1 and more.
void upsample(NodeContext &n, const Floats &scales) {
  const Sampling s = samplingOf(n, "asymmetric", "floor");
  if (n.failed())
    return;
  if (s.mode == "nearest" && llvm::any_of(scales, [](double scale) { return scale < 1; }))
    n.state.notes.add(
        "an Upsample makes its operand smaller, which ONNX does not define: positions "
        "are rounded down, as PyTorch does");
  resize(n, s, scales, {});
}

// This opset has its scales as an attribute.
void convertUpsample7(NodeContext &n) {
  const onnx::AttributeProto *scales = n.attr("scales");
  if (!scales)
    return n.fail("expects an attribute 'scales'");
  upsample(n, Floats(scales->floats().begin(), scales->floats().end()));
}

void convertUpsample9(NodeContext &n) { upsample(n, n.floats(1)); }

void convertResize10(NodeContext &n) {
  const Floats scales = n.floats(1);
  const Sampling s = samplingOf(n, "asymmetric", kOfOpset10);
  if (!n.failed())
    resize(n, s, scales, {});
}

void convertResize(NodeContext &n) {
  const Sampling s = samplingOf(n, "half_pixel", "round_prefer_floor");
  Floats scales;
  Ints sizes;
  if (n.has(3))
    sizes = n.ints(3);
  if (sizes.empty() && n.has(2))
    scales = n.floats(2);
  if (!n.failed())
    resize(n, s, scales, sizes);
}

constexpr OnnxOp kOps[] = {
    {"Upsample", 7, 1, 1, 1, convertUpsample7},
    {"Upsample", 9, 2, 2, 1, convertUpsample9, kAllButFirst},
    {"Resize", 10, 2, 2, 1, convertResize10, kAllButFirst},
    {"Resize", 11, 1, 4, 1, convertResize, kAllButFirst},
};

} // namespace

OpRows resizeOps() { return kOps; }

} // namespace isthmus::onnx_import
