// Convolutions and pools, as standard operators.

#include "ir/onnx/export/body.h"
#include "ir/onnx/tensor_data.h"
#include "ir/ops/window.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;
using Items = std::vector<Body::AttrItem>;

// The window's attributes, with the names that all of ONNX's window operators share.
Items windowAttrs(const Window &win) {
  Ints kernel, strides, dilations, low, high;
  for (const WindowAxis &a : win) {
    kernel.push_back(a.kernel);
    strides.push_back(a.stride);
    dilations.push_back(a.dilation);
    low.push_back(a.padLow);
    high.push_back(a.padHigh);
  }
  low.insert(low.end(), high.begin(), high.end());
  return {{"kernel_shape", kernel}, {"strides", strides}, {"pads", low}, {"dilations", dilations}};
}

// --- Convolution

Names conv(const RowWriter &w) {
  Items items = windowAttrs(windowOf(w.attrs, spatial(w.type(1))));
  items.push_back({"group", w.attrs.getInt("groups")});
  Names in{w.x(0), w.x(1)};
  if (w.has(2))
    in.push_back(w.x(2));
  return {w.b.emit("Conv", in, items)};
}

Names convTranspose(const RowWriter &w) {
  Window win = windowOf(w.attrs, spatial(w.type(1)));
  Items items = windowAttrs(win);
  items.push_back({"group", w.attrs.getInt("groups")});
  Ints extra;
  for (size_t i = 0; i < win.size(); ++i)
    extra.push_back(spatial(w.results[0])[i] - ((spatial(w.type(0))[i] - 1) * win[i].stride +
                                                win[i].extent() - win[i].padLow - win[i].padHigh));
  items.push_back({"output_padding", extra});
  Names in{w.x(0), w.x(1)};
  if (w.has(2))
    in.push_back(w.x(2));
  return {w.b.emit("ConvTranspose", in, items)};
}

// A convolution of x with g as the kernel: the batch is summed over like channels, and strides and
// dilations swap. Results beyond the kernel's size are cut off.
Names convWeightGrad(const RowWriter &w) {
  const Type &g = w.type(0), &x = w.type(1), &y = w.results[0];
  int64_t groups = w.attrs.getInt("groups"), rank = x.rank();
  Window win = windowOf(w.attrs, spatial(y));
  int64_t n = x.dims[0], inGroup = x.dims[1] / groups;
  Dims apart{n, groups, inGroup}, together{inGroup, groups * n};
  apart.append(spatial(x).begin(), spatial(x).end());
  together.append(spatial(x).begin(), spatial(x).end());
  Ints toFront{2, 1, 0}, swap{1, 0};
  for (int64_t i = 3; i <= rank; ++i)
    toFront.push_back(i);
  for (int64_t i = 2; i < rank; ++i)
    swap.push_back(i);
  Name image = w.reshape(w.transpose(w.reshape(w.x(1), apart), toFront), together);
  Name kernel = w.transpose(w.x(0), swap);
  for (size_t i = 0; i < win.size(); ++i) {
    std::swap(win[i].stride, win[i].dilation);
    win[i].kernel = spatial(g)[i];
  }
  Items items = windowAttrs(win);
  items.push_back({"group", groups});
  Name all = w.b.emit("Conv", {image, kernel}, items);
  Ints ends(spatial(y).begin(), spatial(y).end());
  Name cut = w.slice(all, Ints(ends.size(), 0), ends, sequence(2, rank));
  return {w.transpose(cut, swap)};
}

// --- Pools

Items poolAttrs(const RowWriter &w) {
  Items items = windowAttrs(windowOf(w.attrs, w.attrs.getInts("kernel")));
  items.push_back({"ceil_mode", int64_t(w.attrs.getBool("ceil_mode"))});
  return items;
}

// The operand for MaxPool in place of x. MaxPool supports only eight bits among integers. Other
// integers are replaced by their ranks, as floats, among the distinct numbers of x, `sorted`.
struct Poolable {
  Name x, sorted;
  explicit Poolable(const RowWriter &w) : x(w.x(0)) {
    if (isFloat(w.dtype()) || w.dtype() == DType::U8)
      return;
    Names found = w.b.emitAll("Unique", {x}, 3);
    sorted = found[0];
    x = w.cast(w.reshape(found[2], w.type(0).dims), DType::I64, DType::F64);
  }
};

Names maxPool(const RowWriter &w) {
  Poolable of(w);
  Name y = w.b.emit("MaxPool", {of.x}, poolAttrs(w));
  if (of.sorted.empty())
    return {y};
  return {w.b.emit("Gather", {of.sorted, w.cast(y, DType::F64, DType::I64)})};
}

// The flat index in x of each window's first maximum.
Name maximumAt(const RowWriter &w, const Name &x) {
  return w.reshape(w.b.emitAll("MaxPool", {x}, 2, poolAttrs(w))[1], {-1});
}

Names maxPoolGrad(const RowWriter &w) {
  const Type &x = w.type(1);
  if (x.elements() == 0)
    return {};
  Name zeros = w.b.emit("Expand", {w.number(0), w.b.ints({x.elements()})});
  Name sum = w.b.emit("ScatterElements", {zeros, maximumAt(w, w.x(1)), w.reshape(w.x(0), {-1})},
                      {{"reduction", std::string("add")}});
  return {w.reshape(sum, x.dims)};
}

Names maxPoolTake(const RowWriter &w) {
  if (w.type(1).elements() == 0)
    return {};
  Name taken = w.b.emit("Gather", {w.reshape(w.x(0), {-1}), maximumAt(w, w.x(1))});
  return {w.reshape(taken, w.results[0].dims)};
}

Names maxPoolIndices(const RowWriter &w) {
  Items items = poolAttrs(w);
  items.push_back({"storage_order", int64_t(w.attrs.getBool("column_major"))});
  return {w.b.emitAll("MaxPool", {Poolable(w).x}, 2, items)[1]};
}

// Sums over windows: a convolution of each channel with ones.
Name windowSums(const RowWriter &w) {
  const Type &x = w.type(0), &y = w.results[0];
  Window win = windowOf(w.attrs, w.attrs.getInts("kernel"));
  Dims alone{x.dims[0] * x.dims[1], 1}, ones{1, 1};
  for (size_t i = 0; i < win.size(); ++i) {
    int64_t size = spatial(x)[i], whole = (spatial(y)[i] - 1) * win[i].stride + win[i].extent();
    win[i].padHigh = std::max(win[i].padHigh, whole - win[i].padLow - size); // may overhang
    alone.push_back(size);
    ones.push_back(win[i].kernel);
  }
  Name kernel = w.b.emit("Expand", {w.number(1), w.b.ints(ones)});
  return w.reshape(w.b.emit("Conv", {w.reshape(w.x(0), alone), kernel}, windowAttrs(win)), y.dims);
}

Names avgPool(const RowWriter &w) {
  if (int64_t divisor = w.attrs.getInt("divisor")) {
    if (w.type(0).elements() == 0)
      return {};
    return {w.b.emit("Div", {windowSums(w), w.number(double(divisor))})};
  }
  Items items = poolAttrs(w);
  items.push_back({"count_include_pad", int64_t(w.attrs.getBool("count_include_pad"))});
  return {w.b.emit("AveragePool", {w.x(0)}, items)};
}

// The number of elements by which the window at position `at` of an axis divides.
int64_t counted(const WindowAxis &a, int64_t at, int64_t size, bool withPads) {
  int64_t count = 0;
  for (int64_t k = 0; k < a.kernel; ++k) {
    int64_t x = at * a.stride - a.padLow + k * a.dilation;
    count += withPads ? x < size + a.padHigh : x >= 0 && x < size;
  }
  return count;
}

// Adds each element of g, divided by its window's count, to the whole window: a transposed
// convolution of each channel with ones.
Names avgPoolGrad(const RowWriter &w) {
  const Type &g = w.type(0), &y = w.results[0];
  Window win = windowOf(w.attrs, w.attrs.getInts("kernel"));
  if (g.elements() == 0 || y.elements() == 0)
    return {};
  bool withPads = w.attrs.getBool("count_include_pad");
  int64_t divisor = w.attrs.getInt("divisor"), images = g.dims[0] * g.dims[1];
  Name dx = w.x(0);
  if (divisor != 0)
    dx = w.b.emit("Div", {dx, w.number(double(divisor))});
  Dims alone{images, 1}, ones{1, 1};
  for (size_t i = 0; i < win.size(); ++i) {
    if (divisor == 0) {
      std::vector<double> counts;
      for (int64_t at = 0; at < spatial(g)[i]; ++at)
        counts.push_back(double(counted(win[i], at, spatial(y)[i], withPads)));
      Dims along(size_t(g.rank()), 1);
      along[2 + i] = spatial(g)[i];
      dx = w.b.emit("Div", {dx, w.b.tensor(onnx_import::floatsTensor(g.with(along), counts))});
    }
    alone.push_back(spatial(g)[i]);
    ones.push_back(win[i].kernel);
  }
  Name kernel = w.b.emit("Expand", {w.number(1), w.b.ints(ones)});
  Ints strides, dilations, starts, ends, pads(2 * size_t(y.rank()), 0);
  bool isPadded = false;
  for (size_t i = 0; i < win.size(); ++i) {
    int64_t whole = (spatial(g)[i] - 1) * win[i].stride + win[i].extent();
    strides.push_back(win[i].stride);
    dilations.push_back(win[i].dilation);
    starts.push_back(win[i].padLow);
    ends.push_back(std::min(whole, win[i].padLow + spatial(y)[i]));
    pads[size_t(y.rank()) + 2 + i] = win[i].padLow + spatial(y)[i] - ends[i];
    isPadded |= pads[size_t(y.rank()) + 2 + i] != 0;
  }
  dx = w.b.emit("ConvTranspose", {w.reshape(dx, alone), kernel},
                {{"strides", strides}, {"dilations", dilations}});
  dx = w.slice(dx, starts, ends, sequence(2, y.rank()));
  if (isPadded)
    dx = w.b.emit("Pad", {dx, w.b.ints(pads), w.number(0)});
  return {w.reshape(dx, y.dims)};
}

constexpr ExportRow kRows[] = {
    {"conv", conv},
    {"conv_transpose", convTranspose},
    {"conv_weight_grad", convWeightGrad},
    {"max_pool", maxPool},
    {"max_pool_grad", maxPoolGrad},
    {"max_pool_take", maxPoolTake},
    {"max_pool_indices", maxPoolIndices},
    {"avg_pool", avgPool},
    {"avg_pool_grad", avgPoolGrad},
};

} // namespace

ExportRows windowRows() { return kRows; }

} // namespace isthmus::onnx_export
