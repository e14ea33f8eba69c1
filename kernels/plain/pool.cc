// Pools, one plane (a channel of an image) at a time.

#include "kernels/plain/by_type.h"
#include "kernels/plain/conv_shape.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Sizes as a convolution has them, the planes of a batch being its images.
struct Pool : ConvShape {
  int64_t padHigh[3] = {0, 0, 0};

  Pool(const OpCall &call, const Type &y, const Type &x)
      : ConvShape(convShape(y, x, windowOf(*call.attrs, call.attrs->getInts("kernel")), 1)) {
    size_t lead = 3 - (x.dims.size() - 2);
    const Ints &pads = call.attrs->getInts("pads");
    for (size_t i = lead; i < 3 && !pads.empty(); ++i)
      padHigh[i] = pads[i - lead + pads.size() / 2];
  }
  int64_t planes() const { return batch * channels; }

  // The taps of the window at `o` that lie in the image.
  Range taps(int axis, int64_t o) const {
    int64_t start = o * stride[axis] - pad[axis], step = dilation[axis];
    int64_t low = start < 0 ? (-start + step - 1) / step : 0;
    int64_t high = std::min(kernel[axis], (in[axis] - start + step - 1) / step);
    return {low, std::max(low, high)};
  }

  // Calls f(index of the place, d, h, w ranges of positions) for every window of a plane.
  template <typename F> void forEachWindow(F f) const {
    int64_t at = 0;
    for (int64_t od = 0; od < out[0]; ++od)
      for (int64_t oh = 0; oh < out[1]; ++oh) {
        Range d = taps(0, od), h = taps(1, oh);
        for (int64_t ow = 0; ow < out[2]; ++ow, ++at)
          f(at, od, oh, ow, d, h, taps(2, ow));
      }
  }
};

// Where the window has its first maximum, as an index into the plane, NaN being the largest; -1 if
// it holds no element.
template <typename T>
int64_t whereMax(const Pool &p, const T *x, int64_t od, int64_t oh, int64_t ow, Pool::Range d,
                 Pool::Range h, Pool::Range w) {
  int64_t best = -1;
  Compute<T> most = 0;
  for (int64_t kd = d.low; kd < d.high; ++kd)
    for (int64_t kh = h.low; kh < h.high; ++kh) {
      int64_t row = (p.position(0, od, kd) * p.in[1] + p.position(1, oh, kh)) * p.in[2];
      for (int64_t kw = w.low; kw < w.high; ++kw) {
        int64_t i = row + p.position(2, ow, kw);
        Compute<T> v = x[i];
        if (best < 0 || v > most || (v != v && most == most)) {
          best = i;
          most = v;
        }
      }
    }
  return best;
}

struct MaxPool {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[0]);
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < p.planes(); ++n) {
      const T *from = x + n * p.inPlane();
      T *to = y + n * p.outPlane();
      p.forEachWindow([&](int64_t at, auto... window) {
        int64_t i = whereMax(p, from, window...);
        to[at] = i < 0 ? T(-INFINITY) : from[i];
      });
    }
  }
};

struct MaxPoolGrad {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.operands[0], call.operands[1]);
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    T *dx = result<T>(args, 0);
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < p.planes(); ++n) {
      const T *image = x + n * p.inPlane(), *up = g + n * p.outPlane();
      T *to = dx + n * p.inPlane();
      std::fill(to, to + p.inPlane(), T(0));
      p.forEachWindow([&](int64_t at, auto... window) {
        int64_t i = whereMax(p, image, window...);
        if (i >= 0)
          to[i] = T(Compute<T>(to[i]) + Compute<T>(up[at]));
      });
    }
  }
};

struct MaxPoolTake {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[1]);
    const T *v = operand<T>(args, 0), *x = operand<T>(args, 1);
    T *y = result<T>(args, 0);
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < p.planes(); ++n) {
      const T *image = x + n * p.inPlane(), *from = v + n * p.inPlane();
      T *to = y + n * p.outPlane();
      p.forEachWindow([&](int64_t at, auto... window) {
        int64_t i = whereMax(p, image, window...);
        to[at] = i < 0 ? T(0) : from[i];
      });
    }
  }
};

// How many elements the mean of the window at (od, oh, ow) is taken over; 1 if there are none.
struct Counts {
  const Pool &p;
  bool padding;

  int64_t along(int axis, int64_t o) const {
    if (!padding) {
      auto [low, high] = p.taps(axis, o);
      return high - low;
    }
    int64_t start = o * p.stride[axis] - p.pad[axis];
    return std::min(p.kernel[axis], p.in[axis] + p.padHigh[axis] - start);
  }
  double scale(int64_t od, int64_t oh, int64_t ow) const {
    return 1.0 / double(std::max<int64_t>(1, along(0, od) * along(1, oh) * along(2, ow)));
  }
};

struct AvgPool {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[0]);
    const Counts counts{p, call.attrs->getBool("count_include_pad")};
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < p.planes(); ++n) {
      const T *from = x + n * p.inPlane();
      T *to = y + n * p.outPlane();
      p.forEachWindow([&](int64_t at, int64_t od, int64_t oh, int64_t ow, Pool::Range d,
                          Pool::Range h, Pool::Range w) {
        double sum = 0;
        for (int64_t kd = d.low; kd < d.high; ++kd)
          for (int64_t kh = h.low; kh < h.high; ++kh) {
            const T *row =
                from + (p.position(0, od, kd) * p.in[1] + p.position(1, oh, kh)) * p.in[2];
            for (int64_t kw = w.low; kw < w.high; ++kw)
              sum += double(row[p.position(2, ow, kw)]);
          }
        to[at] = converted<T>(sum * counts.scale(od, oh, ow));
      });
    }
  }
};

// The windows that hold position `i` along an axis; for pools without dilation.
Pool::Range windowsOver(const Pool &p, int axis, int64_t i) {
  int64_t first = i + p.pad[axis] - p.kernel[axis] + 1, stride = p.stride[axis];
  return {first <= 0 ? 0 : (first + stride - 1) / stride,
          std::min(p.out[axis], (i + p.pad[axis]) / stride + 1)};
}

// Each element gathers from its windows, so that sums are in double and no two threads share one.
struct AvgPoolGrad {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.operands[0], call.results[0]);
    const Counts counts{p, call.attrs->getBool("count_include_pad")};
    const T *g = operand<T>(args, 0);
    T *dx = result<T>(args, 0);
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < p.planes(); ++n) {
      const T *from = g + n * p.outPlane();
      T *to = dx + n * p.inPlane();
      for (int64_t d = 0; d < p.in[0]; ++d)
        for (int64_t h = 0; h < p.in[1]; ++h)
          for (int64_t w = 0; w < p.in[2]; ++w, ++to) {
            Pool::Range atD = windowsOver(p, 0, d), atH = windowsOver(p, 1, h),
                        atW = windowsOver(p, 2, w);
            double sum = 0;
            for (int64_t od = atD.low; od < atD.high; ++od)
              for (int64_t oh = atH.low; oh < atH.high; ++oh)
                for (int64_t ow = atW.low; ow < atW.high; ++ow)
                  sum +=
                      double(from[(od * p.out[1] + oh) * p.out[2] + ow]) * counts.scale(od, oh, ow);
            *to = converted<T>(sum);
          }
    }
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainPool(KernelTable &table) {
  using namespace plain;
  table.add({"max_pool", "plain", prepareThreaded<runFloat<MaxPool>>});
  table.add({"max_pool_grad", "plain", prepareThreaded<runFloat<MaxPoolGrad>>});
  table.add({"max_pool_take", "plain", prepareThreaded<runFloat<MaxPoolTake>>});
  table.add({"avg_pool", "plain", prepareThreaded<runFloat<AvgPool>>});
  table.add({"avg_pool_grad", "plain", prepareThreaded<runFloat<AvgPoolGrad>>});
}

} // namespace isthmus
