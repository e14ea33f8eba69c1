// Sizes of a convolution with exactly three spatial axes. Leading axes that a tensor lacks have
// size one.
#pragma once

#include "ir/ops/channels.h"
#include "ir/ops/window.h"
#include "kernels/element/portable.h"
#include <algorithm>

namespace isthmus {

struct ConvShape {
  int64_t batch, channels, outChannels, groups; // channels of x
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];

  ISTHMUS_DEVICE int64_t inPlane() const { return in[0] * in[1] * in[2]; }
  ISTHMUS_DEVICE int64_t outPlane() const { return out[0] * out[1] * out[2]; }
  ISTHMUS_DEVICE int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  ISTHMUS_DEVICE int64_t groupChannels() const { return channels / groups; }
  ISTHMUS_DEVICE int64_t groupOutChannels() const { return outChannels / groups; }

  // The half-open range of output positions along an axis at which tap `k` reads inside the image.
  struct Range {
    int64_t low, high;
  };
  ISTHMUS_DEVICE Range places(int axis, int64_t k) const {
    int64_t first = pad[axis] - k * dilation[axis]; // o * stride >= first
    int64_t last = in[axis] - 1 + first;            // o * stride <= last
    int64_t low = first <= 0 ? 0 : (first + stride[axis] - 1) / stride[axis];
    int64_t high = last < 0 ? 0 : std::min(out[axis], last / stride[axis] + 1);
    return {low, std::max(low, high)};
  }
  // The input position that tap `k` reads at output position `o`; it may lie in the padding.
  ISTHMUS_DEVICE int64_t position(int axis, int64_t o, int64_t k) const {
    return o * stride[axis] + k * dilation[axis] - pad[axis];
  }
};

// g is the type of conv's result, x that of its operand; `window` holds the op's window attributes.
inline ConvShape convShape(const Type &g, const Type &x, const Window &window, int64_t groups) {
  ConvShape s = {x.dims[0], x.dims[1], g.dims[1], groups,    {1, 1, 1},
                 {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
  size_t lead = 3 - window.size();
  for (size_t i = 0; i < window.size(); ++i) {
    s.in[lead + i] = x.dims[2 + i];
    s.out[lead + i] = g.dims[2 + i];
    s.kernel[lead + i] = window[i].kernel;
    s.stride[lead + i] = window[i].stride;
    s.dilation[lead + i] = window[i].dilation;
    s.pad[lead + i] = window[i].padLow;
  }
  return s;
}

// The sizes of a call of conv, conv_transpose or conv_weight_grad.
inline ConvShape convShape(const OpCall &given) {
  const OpCall c = channelsFirst(given);
  bool forward = c.op->name == "conv", transpose = c.op->name == "conv_transpose";
  const Type &g = forward ? c.results[0] : c.operands[0];
  const Type &x = forward ? c.operands[0] : transpose ? c.results[0] : c.operands[1];
  const Type &w = forward || transpose ? c.operands[1] : c.results[0];
  return convShape(g, x, windowOf(*c.attrs, spatial(w)), c.attrs->getInt("groups"));
}

// A convolution with kernel one, stride one and no padding treats each image as one long row.
inline ConvShape flattened(ConvShape s) {
  for (int a = 0; a < 3; ++a)
    if (s.kernel[a] != 1 || s.stride[a] != 1 || s.pad[a] != 0 || s.in[a] != s.out[a])
      return s;
  for (auto *sizes : {s.in, s.out}) {
    sizes[2] *= sizes[0] * sizes[1];
    sizes[0] = sizes[1] = 1;
  }
  return s;
}

// Distances, in elements, between neighbours along the axes of a dense tensor.
struct ImageSteps {
  // For weights, `image` is the step between output channels, and `at` those between taps.
  int64_t image, channel, at[3];
  bool channelsLast;

  ImageSteps(int64_t channels, const int64_t (&sizes)[3], bool channelsLast)
      : image(channels * sizes[0] * sizes[1] * sizes[2]),
        channel(channelsLast ? 1 : sizes[0] * sizes[1] * sizes[2]), channelsLast(channelsLast) {
    at[2] = channelsLast ? channels : 1;
    at[1] = at[2] * sizes[2];
    at[0] = at[1] * sizes[1];
  }
  ISTHMUS_DEVICE int64_t place(int64_t d, int64_t h, int64_t w) const {
    return d * at[0] + h * at[1] + w * at[2];
  }
};

// The steps of a convolution's three tensors. x and y are the operand and result of conv, even if
// the call computes another of the three.
struct ConvSteps {
  ImageSteps x, y, w;

  ConvSteps(const ConvShape &s, bool channelsLast)
      : x(s.channels, s.in, channelsLast), y(s.outChannels, s.out, channelsLast),
        w(s.groupChannels(), s.kernel, channelsLast) {}
};

} // namespace isthmus
