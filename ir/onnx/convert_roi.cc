// RoiAlign: a grid of samples in each bin of each region, and their mean or maximum.

#include "ir/onnx/op_table.h"
#include "ir/onnx/sampling.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

struct Regions {
  int64_t count, bins[2], most[2]; // most: the largest number of samples of a bin along y and x
  int64_t ratio;
  double scale;
  bool halfPixel, mean;
};

// One edge of all regions, [count, 1, 1].
Operand side(NodeContext &n, const Operand &rois, int64_t column, const Regions &r) {
  Operand s =
      n.emit("slice", {rois}, {{"starts", Ints{0, column}}, {"limits", Ints{r.count, column + 1}}});
  return n.reshape(n.affine(s, r.scale, r.halfPixel ? -0.5 : 0), {r.count, 1, 1});
}

// The taps of all samples along y (axis 0) or x (axis 1), [regions, bins, samples * 2].
AxisTaps regionTaps(NodeContext &n, const Operand &rois, const Regions &r, int axis, int64_t size) {
  DType t = rois.type.dtype;
  int64_t bins = r.bins[axis], most = r.most[axis];
  Operand low = side(n, rois, 1 - axis, r), high = side(n, rois, 3 - axis, r);
  Operand extent = n.emit("sub", {high, low});
  if (!r.halfPixel) // such regions are at least one element wide
    extent = n.emit("clamp", {extent}, {{"min", 1.0}});
  Operand bin = n.affine(extent, 1 / double(bins), 0);
  std::vector<double> first, middle;
  for (int64_t i = 0; i < bins; ++i)
    first.push_back(double(i));
  for (int64_t i = 0; i < most; ++i)
    middle.push_back(double(i));
  Operand index = numbers(n, Type(t, {most}), middle), share;
  Operand counted; // whether a sample exists: bins have up to `most`
  if (r.ratio > 0) {
    share = n.affine(n.affine(index, 1, 0.5), 1 / double(most), 0);
  } else {
    Operand samples = n.emit("ceil", {bin});
    counted = n.emit("less", {index, samples});
    // For a maximum, the missing samples repeat the last one.
    Operand at = r.mean ? index : n.emit("minimum", {index, n.affine(samples, 1, -1)});
    share =
        n.emit("div", {n.affine(at, 1, 0.5), n.emit("maximum", {samples, n.scalarConstant(t, 1)})});
  }
  Operand start = n.emit("add", {low, n.emit("mul", {bin, numbers(n, Type(t, {bins, 1}), first)})});
  Operand at = n.emit("add", {start, n.emit("mul", {bin, share})}); // [count, bins, most]
  if (n.failed())
    return {};
  at = n.reshape(at, {r.count, bins * most, 1});
  // A sample up to one element outside reads the border. Samples further out are masked.
  double last = double(size - 1);
  AxisTaps taps =
      linearTaps(n, n.emit("clamp", {at}, {{"min", 0.0}, {"max", last}}), size, Beyond::Border);
  Operand there = n.emit("and", {n.emit("greater_equal", {at, n.scalarConstant(t, -1)}),
                                 n.emit("less_equal", {at, n.scalarConstant(t, double(size))})});
  taps.inside = n.broadcast(there, {r.count, bins * most, 2});
  if (r.mean && r.ratio > 0) {
    taps.weights = n.affine(taps.weights, 1 / double(most), 0);
  } else if (r.mean) {
    Operand samples = n.emit("maximum", {n.emit("ceil", {bin}), n.scalarConstant(t, 1)});
    Operand weight =
        n.emit("div", {n.cast(n.broadcast(counted, {r.count, bins, most}), t), samples});
    taps.weights = n.emit("mul", {taps.weights, n.reshape(weight, {r.count, bins * most, 1})});
  }
  if (n.failed())
    return {};
  for (Operand *o : {&taps.weights, &taps.at, &taps.inside})
    *o = n.reshape(*o, {r.count, bins, most * 2});
  return taps;
}

// Pairs each bin along y with each along x: broadcasts the taps of one axis to [regions, bins y *
// bins x, taps].
AxisTaps spread(NodeContext &n, AxisTaps t, const Regions &r, int axis) {
  if (n.failed())
    return t;
  int64_t taps = t.at.type.dims[2];
  for (Operand *o : {&t.weights, &t.at, &t.inside}) {
    Operand bins =
        n.reshape(*o, {r.count, axis == 0 ? r.bins[0] : 1, axis == 0 ? 1 : r.bins[1], taps});
    *o = n.reshape(n.broadcast(bins, {r.count, r.bins[0], r.bins[1], taps}),
                   {r.count, r.bins[0] * r.bins[1], taps});
  }
  return t;
}

// Sets the numbers of samples. If a bin has one sample for each element it covers, the largest
// region decides.
bool setMost(NodeContext &n, Regions &r) {
  r.most[0] = r.most[1] = std::max<int64_t>(1, r.ratio);
  if (r.ratio > 0)
    return true;
  Floats rois = n.floats(1);
  if (n.failed())
    return false;
  for (int64_t i = 0; i < r.count; ++i)
    for (int axis : {0, 1}) {
      double extent = (rois[size_t(4 * i + 3 - axis)] - rois[size_t(4 * i + 1 - axis)]) * r.scale;
      double bin = std::max(extent, r.halfPixel ? 0 : 1.0) / double(r.bins[axis]);
      if (!(bin < 0x1p20)) {
        n.fail("expects regions of a usual size, got one of {0}", extent);
        return false;
      }
      // The margin allows for rounding in the model's type across a whole number.
      r.most[axis] = std::max(r.most[axis], int64_t(std::ceil(bin * (1 + 1e-6))));
    }
  return true;
}

void convertRoiAlign(NodeContext &n) {
  const Operand &x = n.in(0), &rois = n.in(1), &images = n.in(2);
  Regions r;
  r.bins[0] = n.intAttr("output_height", 1);
  r.bins[1] = n.intAttr("output_width", 1);
  r.ratio = n.intAttr("sampling_ratio", 0);
  r.scale = n.floatAttr("spatial_scale", 1);
  std::string mode = n.stringAttr("mode", "avg");
  std::string coordinates = n.stringAttr("coordinate_transformation_mode",
                                         n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  r.halfPixel = coordinates == "half_pixel";
  r.mean = mode == "avg";
  if (!r.mean && mode != "max")
    n.fail("expects avg or max as attribute 'mode', got '{0}'", mode);
  if (!r.halfPixel && coordinates != "output_half_pixel")
    n.fail("expects half_pixel or output_half_pixel as attribute 'coordinate_transformation_mode', "
           "got '{0}'",
           coordinates);
  if (x.type.rank() != 4 || rois.type.rank() != 2 || rois.type.dims[1] != 4 ||
      images.type.rank() != 1 || images.type.dims[0] != rois.type.dims[0])
    n.fail("expects images of rank 4, regions [n, 4] and image indices [n], got '{0}', '{1}' and "
           "'{2}'",
           x.type.str(), rois.type.str(), images.type.str());
  for (int64_t v : {r.bins[0], r.bins[1]})
    if (v < 1 || v > int64_t(1) << 20)
      n.fail("expects an output of sizes in [1, 2^20], got {0}", v);
  if (r.ratio < 0 || r.ratio > int64_t(1) << 20)
    n.fail("expects a sampling ratio in [0, 2^20], got {0}", r.ratio);
  if (n.failed())
    return;
  r.count = rois.type.dims[0];
  if (!setMost(n, r))
    return;
  const Dims &d = x.type.dims;
  Operand wide = n.cast(rois, wideType(x.type.dtype));
  AxisTaps all = product(n, spread(n, regionTaps(n, wide, r, 0, d[2]), r, 0),
                         spread(n, regionTaps(n, wide, r, 1, d[3]), r, 1));
  if (n.failed())
    return;
  // All images become one. A region's indices start at the offset of its image in it.
  int64_t points = r.count * r.bins[0] * r.bins[1], taps = all.at.type.dims[2];
  Operand first = n.emit("affine", {n.reshape(n.cast(images, DType::I64), {r.count, 1, 1})},
                         {{"scale", double(d[2] * d[3])}});
  all.at = n.emit("add", {all.at, first});
  Operand flat = n.reshape(n.transpose(x, {1, 0, 2, 3}), {1, d[1], d[0] * d[2] * d[3], 1});
  Dims list = r.mean ? Dims{1, points, taps} : Dims{1, points * taps, 1};
  Operand y =
      n.emit("interpolate", {flat, n.reshape(places(n, all), list), n.reshape(all.weights, list)});
  if (!r.mean) // by definition the maximum of the weighted elements, not of their sums
    y = n.emit("max", {n.reshape(y, {d[1], points, taps})},
               {{"axes", Ints{2}}, {"keepdims", false}});
  y = n.transpose(n.reshape(y, {d[1], r.count, r.bins[0] * r.bins[1]}), {1, 0, 2});
  n.result(0, n.reshape(y, {r.count, d[1], r.bins[0], r.bins[1]}));
}

constexpr OnnxOp kOps[] = {{"RoiAlign", 10, 3, 3, 1, convertRoiAlign, kAllButFirst}};

} // namespace

OpRows roiOps() { return kOps; }

} // namespace isthmus::onnx_import
