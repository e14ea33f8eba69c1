// Convolutions whose window is deformed by an operand, and Col2Im, which adds the elements of
// windows back to an image.

#include "ir/onnx/op_table.h"
#include "ir/onnx/sampling.h"
#include "ir/onnx/window_attrs.h"

namespace isthmus::onnx_import {
namespace {

int64_t product(llvm::ArrayRef<int64_t> dims) {
  int64_t all = 1; // no overflow: the types are valid
  for (int64_t d : dims)
    all *= d;
  return all;
}

// The coordinates along `axis` of the elements of a window. For each element (row-major) and each
// position of the window: the window's start plus the element's distance.
std::vector<double> windowPlaces(const WindowAttrs &w, llvm::ArrayRef<int64_t> kernel,
                                 llvm::ArrayRef<int64_t> out, size_t axis) {
  std::vector<double> all;
  int64_t inner = product(out.drop_front(axis + 1)),
          innerTap = product(kernel.drop_front(axis + 1));
  for (int64_t k = 0; k < product(kernel); ++k)
    for (int64_t p = 0; p < product(out); ++p)
      all.push_back(double(p / inner % out[axis] * w.strides[axis] - w.pads[axis] +
                           k / innerTap % kernel[axis] * w.dilations[axis]));
  return all;
}

// --- DeformConv: samples at the window's coordinates plus the offsets, weighted by a mask. They
// are multiplied by the weights like a convolution's columns.

struct Deform {
  Operand x, w, offset;
  WindowAttrs window;
  int64_t groups, offsetGroups, batch, channels, outChannels, axes, taps, points;
  llvm::ArrayRef<int64_t> kernel, sizes, out;
};

bool check(NodeContext &n, const Deform &d) {
  const Type &x = d.x.type, &w = d.w.type, &o = d.offset.type;
  if (d.groups < 1 || d.offsetGroups < 1 || d.channels % d.groups != 0 ||
      d.outChannels % d.groups != 0 || d.channels % d.offsetGroups != 0 ||
      w.dims[1] != d.channels / d.groups)
    n.fail("expects channels that are multiples of 'group' and 'offset_group', got '{0}' and '{1}' "
           "for {2} and {3}",
           x.str(), w.str(), d.groups, d.offsetGroups);
  else if (o.dims[0] != d.batch || o.dims[1] != d.offsetGroups * d.taps * d.axes)
    n.fail("expects an offset along each axis for each element of the window and offset group, "
           "{0}, got '{1}'",
           d.offsetGroups * d.taps * d.axes, o.str());
  for (size_t a = 0; a < d.kernel.size() && !n.failed(); ++a) {
    int64_t room = d.sizes[a] + d.window.pads[a] + d.window.pads[d.kernel.size() + a] -
                   (d.kernel[a] - 1) * d.window.dilations[a] - 1;
    if (room < 0 || d.sizes[a] < 1 || room / d.window.strides[a] + 1 != d.out[a])
      n.fail("expects offsets for each place of the window on '{0}', got '{1}'", x.str(), o.str());
  }
  if (!n.failed() && !n.state.folding.take(d.taps * d.points * d.axes * 8))
    n.fail("has a window with too many places for a model of {0} bytes", n.state.model.fileBytes);
  return !n.failed();
}

// The samples, [batch, channels * taps, points].
Operand columns(NodeContext &n, const Deform &d) {
  DType wide = wideType(d.x.type.dtype);
  int64_t images = d.batch * d.offsetGroups;
  Operand offsets = n.cast(n.reshape(d.offset, {images, d.taps, d.axes, d.points}), wide);
  std::vector<AxisTaps> axes;
  for (int64_t a = 0; a < d.axes; ++a) {
    Operand along =
        n.emit("slice", {offsets},
               {{"starts", Ints{0, 0, a, 0}}, {"limits", Ints{images, d.taps, a + 1, d.points}}});
    Operand undeformed = numbers(n, Type(wide, {d.taps * d.points, 1}),
                                 windowPlaces(d.window, d.kernel, d.out, size_t(a)));
    Operand at = n.emit("add", {n.reshape(along, {images, d.taps * d.points, 1}), undeformed});
    axes.push_back(linearTaps(n, at, d.sizes[size_t(a)], Beyond::Zeros));
  }
  if (n.has(4)) // the mask weighs a whole sample, so weighting the taps of one axis is enough
    axes[0].weights = n.emit(
        "mul", {axes[0].weights, n.reshape(n.cast(n.in(4), wide), {images, d.taps * d.points, 1})});
  Dims parts = {images, d.channels / d.offsetGroups};
  parts.append(d.sizes.begin(), d.sizes.end());
  return sampled(n, n.reshape(d.x, parts), axes);
}

void convertDeformConv(NodeContext &n) {
  Deform d;
  d.x = n.in(0), d.w = n.in(1), d.offset = n.in(2);
  const Type &x = d.x.type, &w = d.w.type;
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank() || d.offset.type.rank() != x.rank())
    return n.fail("expects data, weights and offsets of one rank, 3 to 5, got '{0}', '{1}' and "
                  "'{2}'",
                  x.str(), w.str(), d.offset.type.str());
  d.kernel = llvm::makeArrayRef(w.dims).drop_front(2);
  d.sizes = llvm::makeArrayRef(x.dims).drop_front(2);
  d.out = llvm::makeArrayRef(d.offset.type.dims).drop_front(2);
  if (auto kernel = n.intsAttr("kernel_shape"); kernel && llvm::makeArrayRef(*kernel) != d.kernel)
    return n.fail("expects the weights' sizes as attribute 'kernel_shape', got {0} for '{1}'",
                  attrText(*kernel), w.str());
  d.window = windowAttrs(n, d.kernel);
  d.groups = n.intAttr("group", 1);
  d.offsetGroups = n.intAttr("offset_group", 1);
  d.batch = x.dims[0], d.channels = x.dims[1], d.outChannels = w.dims[0];
  d.axes = x.rank() - 2, d.taps = product(d.kernel), d.points = product(d.out);
  if (n.failed() || !check(n, d))
    return;
  if (n.has(4) && n.in(4).type.elements() != d.batch * d.offsetGroups * d.taps * d.points)
    return n.fail(
        "expects a mask for each element of the window, offset group and place, got '{0}'",
        n.in(4).type.str());
  int64_t depth = d.channels / d.groups * d.taps, each = d.outChannels / d.groups;
  Operand cols = n.reshape(columns(n, d), {d.batch, d.groups, depth, d.points});
  Operand y = n.emit("matmul", {n.reshape(d.w, {d.groups, each, depth}), cols});
  Dims dims = {d.batch, d.outChannels};
  dims.append(d.out.begin(), d.out.end());
  y = n.reshape(y, dims);
  if (n.has(3)) {
    Dims channel(size_t(d.axes + 1), 1);
    channel[0] = d.outChannels;
    y = n.emit("add", {y, n.reshape(n.in(3), channel)});
  }
  n.result(0, y);
}

// --- Col2Im: adds the elements of windows to the image at their positions

void convertCol2Im(NodeContext &n) {
  const Operand &x = n.in(0);
  Ints image = n.ints(1), kernel = n.ints(2);
  if (!n.failed() && (x.type.rank() != 3 || image.size() != kernel.size() || image.empty()))
    n.fail("expects columns of rank 3, and a size of the image and of the block for each axis, got "
           "'{0}', {1} and {2}",
           x.type.str(), attrText(image), attrText(kernel));
  if (n.failed())
    return;
  WindowAttrs w = windowAttrs(n, kernel);
  if (n.failed())
    return;
  Ints out;
  for (size_t a = 0; a < image.size(); ++a) {
    int64_t room =
        image[a] + w.pads[a] + w.pads[image.size() + a] - (kernel[a] - 1) * w.dilations[a] - 1;
    if (image[a] < 1 || image[a] > int64_t(1) << 31 || room < 0)
      return n.fail("expects a block that fits, got {0} on {1}", attrText(kernel), attrText(image));
    out.push_back(room / w.strides[a] + 1);
  }
  Type whole(DType::Bool, image), block(DType::Bool, kernel), places(DType::Bool, out);
  if (!whole.isValid() || !block.isValid() || !places.isValid() ||
      x.type.dims[2] != places.elements() || x.type.dims[1] % block.elements() != 0)
    return n.fail("expects columns of a multiple of {0} rows, for each of the places {1} of the "
                  "block, got '{2}'",
                  block.elements(), attrText(out), x.type.str());
  int64_t channels = x.type.dims[1] / block.elements(),
          count = kernel.empty() ? 0 : block.elements();
  int64_t points = count * places.elements();
  if (!n.state.folding.take(points * int64_t(image.size()) * 8))
    return n.fail("has a block with too many places for a model of {0} bytes",
                  n.state.model.fileBytes);
  std::vector<int64_t> at(size_t(points), 0);
  for (size_t a = 0; a < image.size(); ++a) {
    std::vector<double> along = windowPlaces(w, kernel, out, a);
    for (size_t p = 0; p < at.size(); ++p) {
      auto i = int64_t(along[p]);
      at[p] = at[p] < 0 || i < 0 || i >= image[a] ? -1 : at[p] * image[a] + i;
    }
  }
  Operand ones = n.broadcast(n.scalarConstant(wideType(x.type.dtype), 1), {1, points, 1});
  Operand y = n.emit(
      "interpolate_transpose",
      {n.reshape(x, {x.type.dims[0], channels, points, 1}), numbers(n, {1, points, 1}, at), ones},
      {{"size", whole.elements()}});
  image.insert(image.begin(), {x.type.dims[0], channels});
  n.result(0, n.reshape(y, image));
}

constexpr OnnxOp kOps[] = {
    weighted(0b1010, {"DeformConv", 19, 3, 5, 1, convertDeformConv}),
    {"Col2Im", 18, 3, 3, 1, convertCol2Im, kAllButFirst},
};

} // namespace

OpRows deformOps() { return kOps; }

} // namespace isthmus::onnx_import
