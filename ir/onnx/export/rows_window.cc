// Convolutions and pools, as standard operators.

#include "ir/onnx/export/body.h"
#include "ir/onnx/tensor_data.h"
#include "ir/ops/window.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;
using Items = std::vector<Body::AttrItem>;

// The window's attributes, under the names that all of ONNX's operators share.
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

// A convolution of x by g: the batch is summed over as channels are, and strides and dilations
// change places. What is beyond the kernel is cut off.
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
  Name cut = w.b.emit(
      "Slice", {all, w.b.ints(Ints(ends.size(), 0)), w.b.ints(ends), w.b.ints(sequence(2, rank))});
  return {w.transpose(cut, swap)};
}

// --- Pools

Items poolAttrs(const RowWriter &w) {
  Items items = windowAttrs(windowOf(w.attrs, w.attrs.getInts("kernel")));
  items.push_back({"ceil_mode", int64_t(w.attrs.getBool("ceil_mode"))});
  return items;
}

// Of integers ONNX has those of eight bits alone.
bool canPool(DType t) { return isFloat(t) || t == DType::U8; }

Names maxPool(const RowWriter &w) {
  if (!canPool(w.dtype()))
    return {};
  return {w.b.emit("MaxPool", {w.x(0)}, poolAttrs(w))};
}

// Where each window of x has its first maximum, in the tensor as a list.
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
  if (!canPool(w.dtype()))
    return {};
  Items items = poolAttrs(w);
  items.push_back({"storage_order", int64_t(w.attrs.getBool("column_major"))});
  return {w.b.emitAll("MaxPool", {w.x(0)}, 2, items)[1]};
}

Names avgPool(const RowWriter &w) {
  if (w.attrs.getInt("divisor") != 0)
    return {};
  Items items = poolAttrs(w);
  items.push_back({"count_include_pad", int64_t(w.attrs.getBool("count_include_pad"))});
  return {w.b.emit("AveragePool", {w.x(0)}, items)};
}

// How many elements the window at place `at` of an axis divides by.
int64_t counted(const WindowAxis &a, int64_t at, int64_t size, bool withPads) {
  int64_t count = 0;
  for (int64_t k = 0; k < a.kernel; ++k) {
    int64_t x = at * a.stride - a.padLow + k * a.dilation;
    count += withPads ? x < size + a.padHigh : x >= 0 && x < size;
  }
  return count;
}

// Each element of g, over its window's count, goes to all of the window: a transposed convolution
// by ones, of each channel alone.
Names avgPoolGrad(const RowWriter &w) {
  const Type &g = w.type(0), &y = w.results[0];
  Window win = windowOf(w.attrs, w.attrs.getInts("kernel"));
  if (g.elements() == 0 || y.elements() == 0)
    return {};
  bool withPads = w.attrs.getBool("count_include_pad");
  if (w.attrs.getInt("divisor") != 0)
    return {};
  int64_t images = g.dims[0] * g.dims[1];
  Name dx = w.x(0);
  Dims alone{images, 1}, ones{1, 1};
  for (size_t i = 0; i < win.size(); ++i) {
    int64_t size = spatial(y)[i];
    std::vector<double> counts;
    for (int64_t at = 0; at < spatial(g)[i]; ++at)
      counts.push_back(double(counted(win[i], at, size, withPads)));
    Dims along(size_t(g.rank()), 1);
    along[2 + i] = spatial(g)[i];
    Tensor t = onnx_import::floatsTensor(Type(g.dtype, along), counts);
    dx = w.b.emit("Div", {dx, w.b.tensor(t)});
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
  dx = w.b.emit("Slice", {dx, w.b.ints(starts), w.b.ints(ends), w.b.ints(sequence(2, y.rank()))});
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
