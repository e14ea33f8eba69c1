// Images sampled on a grid, and the grids of affine maps.

#include "ir/onnx/op_table.h"
#include "ir/onnx/sampling.h"

namespace isthmus::onnx_import {
namespace {

struct GridAttrs {
  std::string mode; // nearest, linear, cubic
  Beyond beyond = Beyond::Zeros;
  bool alignCorners = false;
};

GridAttrs gridAttrs(NodeContext &n) {
  GridAttrs g;
  g.mode = n.stringAttr("mode", "linear");
  if (g.mode == "bilinear") // below opset 20
    g.mode = "linear";
  if (g.mode == "bicubic")
    g.mode = "cubic";
  if (g.mode != "nearest" && g.mode != "linear" && g.mode != "cubic")
    n.fail("expects linear, nearest or cubic as attribute 'mode', got '{0}'", g.mode);
  std::string padding = n.stringAttr("padding_mode", "zeros");
  if (padding == "border")
    g.beyond = Beyond::Border;
  else if (padding == "reflection")
    g.beyond = Beyond::Reflection;
  else if (padding != "zeros")
    n.fail("expects zeros, border or reflection as attribute 'padding_mode', got '{0}'", padding);
  g.alignCorners = n.intAttr("align_corners", 0) != 0;
  return g;
}

// The taps along an axis of `size` elements from its coordinates in [-1, 1], [batch, points, 1].
AxisTaps axisTaps(NodeContext &n, const GridAttrs &g, const Operand &coordinate, int64_t size) {
  double length = double(size), low = g.alignCorners ? 0 : -0.5;
  double high = length - 1 - low;
  Operand x = n.affine(coordinate, 1, 1);
  x = g.alignCorners ? n.emit("affine", {x}, {{"scale", (length - 1) / 2}})
                     : n.affine(x, length / 2, -0.5);
  if (g.mode == "nearest")
    x = n.emit("round", {x});
  if (g.beyond == Beyond::Reflection)
    x = reflected(n, x, low, high);
  // In cubic mode taps beyond the ends repeat the end's element, and the coordinate is not clamped,
  // as in ONNX Runtime and PyTorch. ONNX's reference clamps it, but no ONNX test covers this case.
  if (g.beyond == Beyond::Border && g.mode != "cubic")
    x = n.emit("clamp", {x}, {{"min", 0.0}, {"max", length - 1}});
  if (g.mode == "nearest")
    return nearestTaps(n, x, size, g.beyond);
  if (g.mode == "linear")
    return linearTaps(n, x, size, g.beyond);
  return cubicTaps(n, x, size, g.beyond, low, high);
}

// The last axis of the grid holds the coordinates: first the one for the image's last axis.
void convertGridSample(NodeContext &n) {
  const Operand &x = n.in(0), &grid = n.in(1);
  GridAttrs g = gridAttrs(n);
  int64_t rank = x.type.rank(), spatial = rank - 2;
  if (n.failed())
    return;
  if (rank < 3 || rank > 5 || grid.type.rank() != rank || grid.type.dims.back() != spatial ||
      grid.type.dims[0] != x.type.dims[0] || !isFloat(grid.type.dtype))
    return n.fail("expects an image of rank 3 to 5 and a grid of its rank and batch size, whose "
                  "last axis has a coordinate for each spatial axis, got '{0}' and '{1}'",
                  x.type.str(), grid.type.str());
  Dims out(grid.type.dims.begin() + 1, grid.type.dims.end() - 1);
  int64_t batch = x.type.dims[0], points = Type(DType::Bool, out).elements();
  for (int64_t a = 2; a < rank; ++a)
    if (x.type.dims[size_t(a)] < 1)
      return n.fail("expects an image with elements, got '{0}'", x.type.str());
  bool counts = !isFloat(x.type.dtype);
  Operand image = counts ? n.cast(x, DType::F64) : x;
  Operand wide = n.cast(n.reshape(grid, {batch, points, spatial}), wideType(image.type.dtype));
  std::vector<AxisTaps> taps;
  for (int64_t a = 0; a < spatial; ++a) {
    int64_t at = spatial - 1 - a;
    Operand coordinate = n.emit(
        "slice", {wide}, {{"starts", Ints{0, 0, at}}, {"limits", Ints{batch, points, at + 1}}});
    taps.push_back(axisTaps(n, g, coordinate, x.type.dims[size_t(2 + a)]));
  }
  Operand y = sampled(n, image, taps);
  out.insert(out.begin(), {batch, x.type.dims[1]});
  n.result(0, n.cast(n.reshape(y, out), x.type.dtype));
}

// Maps the coordinates of an image's elements, in [-1, 1], by `theta`: a product with a constant.
void convertAffineGrid(NodeContext &n) {
  const Operand &theta = n.in(0);
  Ints size = n.ints(1);
  bool align = n.intAttr("align_corners", 0) != 0;
  if (n.failed())
    return;
  int64_t spatial = int64_t(size.size()) - 2;
  if (spatial < 1 || spatial > 3 || theta.type.rank() != 3 || theta.type.dims[0] != size[0] ||
      theta.type.dims[1] != spatial || theta.type.dims[2] != spatial + 1)
    return n.fail("expects sizes of an image of 1 to 3 spatial axes, and as many rows and one more "
                  "column for each of its batch, got {0} and '{1}'",
                  attrText(size), theta.type.str());
  Dims out(size.begin() + 2, size.end());
  Type all(theta.type.dtype, out);
  if (!all.isValid() || all.elements() > int64_t(1) << 40 ||
      !n.state.folding.take(all.elements() * (spatial + 1) * 8))
    return n.fail("would give a grid of {0}, too large for a model of {1} bytes", attrText(size),
                  n.state.model.fileBytes);
  int64_t points = all.elements();
  std::vector<double> base(size_t((spatial + 1) * points), 1);
  for (int64_t p = 0; p < points; ++p)
    for (int64_t a = spatial - 1, rest = p; a >= 0; rest /= out[size_t(a)], --a) {
      double length = double(out[size_t(a)]), i = double(rest % out[size_t(a)]);
      // The coordinate of the last axis comes first.
      base[size_t((spatial - 1 - a) * points + p)] = !align       ? (2 * i + 1) / length - 1
                                                     : length > 1 ? 2 * i / (length - 1) - 1
                                                                  : 0;
    }
  Operand constant = numbers(n, Type(theta.type.dtype, {spatial + 1, points}), base);
  Operand y = n.transpose(n.emit("matmul", {theta, constant}), {0, 2, 1});
  out.insert(out.begin(), size[0]);
  out.push_back(spatial);
  n.result(0, n.reshape(y, out));
}

constexpr OnnxOp kOps[] = {
    {"GridSample", 16, 2, 2, 1, convertGridSample},
    {"AffineGrid", 20, 2, 2, 1, convertAffineGrid, kAllButFirst},
};

} // namespace

OpRows gridOps() { return kOps; }

} // namespace isthmus::onnx_import
