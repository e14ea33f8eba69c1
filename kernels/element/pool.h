// Pooling windows, along one axis at a time, on every device.
#pragma once

#include "kernels/element/conv_shape.h"
#include "kernels/element/portable.h"

namespace isthmus::element {

// I is an integer type wide enough for positions in the padding too.
template <typename I> struct PoolAxis {
  I in, out, kernel, stride, dilation, pad, padHigh;

  struct Range {
    I low, high; // half-open
  };
  ISTHMUS_DEVICE static I over(I n, I by) { return by == 1 ? n : n / by; }

  // The windows whose extent overlaps the positions [begin, end).
  ISTHMUS_DEVICE Range windowsOver(I begin, I end) const {
    I extent = (kernel - 1) * dilation + 1, first = begin + pad - extent + 1;
    I past = over(end - 1 + pad, stride) + 1;
    return {first <= 0 ? I(0) : over(first + stride - 1, stride), past < out ? past : out};
  }
  // Whether window `o`, whose extent covers position `at`, has an element there.
  ISTHMUS_DEVICE bool holds(I o, I at) const {
    return dilation == 1 || (at + pad - o * stride) % dilation == 0;
  }
  // The number of elements of window `o` at positions below `limit`.
  ISTHMUS_DEVICE I before(I o, I limit) const {
    I room = limit - (o * stride - pad);
    if (room <= 0)
      return 0;
    I n = over(room - 1, dilation) + 1;
    return n < kernel ? n : kernel;
  }
  // The taps of window `o` that lie inside the image, not in the padding.
  ISTHMUS_DEVICE Range taps(I o) const { return {before(o, 0), before(o, in)}; }
  // The number of elements of window `o` that an average counts, with or without padding.
  ISTHMUS_DEVICE I counted(I o, bool padding) const {
    return padding ? before(o, in + padHigh) : before(o, in) - before(o, 0);
  }
};

// Sizes of a pooling, described as a convolution. A plane is one channel of one image.
struct PoolShape : ConvShape {
  int64_t padHigh[3] = {0, 0, 0};

  PoolShape(const Attrs &attrs, const Type &y, const Type &x)
      : ConvShape(convShape(y, x, windowOf(attrs, attrs.getInts("kernel")), 1)) {
    size_t lead = 3 - (x.dims.size() - 2);
    const Ints &pads = attrs.getInts("pads");
    for (size_t i = lead; i < 3 && !pads.empty(); ++i)
      padHigh[i] = pads[i - lead + pads.size() / 2];
  }
  int64_t planes() const { return batch * channels; }
  template <typename I> PoolAxis<I> axis(int a) const {
    return {I(in[a]),       I(out[a]), I(kernel[a]), I(stride[a]),
            I(dilation[a]), I(pad[a]), I(padHigh[a])};
  }
};

} // namespace isthmus::element
