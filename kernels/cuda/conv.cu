// Convolutions that cuDNN does not take: one thread for each element of the result, or one team for
// each element of a weight gradient.

#include "kernels/cuda/bias.h"
#include "kernels/cuda/candidates.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/planes.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/register.h"
#include "kernels/element/conv_shape.h"

namespace isthmus::cuda {
namespace {

struct Shape : ConvShape {
  ConvSteps steps;
  Planes inputs, outputs, taps3;
  Divisor byChannels, byOutChannels, byGroupChannels;

  explicit Shape(const OpCall &call) : Shape(convShape(call), *call.attrs) {}
  Shape(const ConvShape &s, const Attrs &attrs)
      : ConvShape(s), steps(s, isChannelsLast(attrs)), inputs(s.in), outputs(s.out),
        taps3(s.kernel), byChannels(s.channels), byOutChannels(s.outChannels),
        byGroupChannels(s.groupChannels()) {}

  // Splits an element's index in memory. Returns its image, or for weights its output channel; sets
  // `channel` and its position in the plane.
  ISTHMUS_GPU int64_t split(int64_t i, const Planes &planes, const Divisor &byChannel,
                            int64_t *channel, int32_t (&at)[3]) const {
    if (steps.x.channelsLast)
      return planes.at(byChannel(i, channel), at);
    return byChannel(planes.at(i, at), channel);
  }

  // The taps of an output position that lie inside the image, along an axis.
  ISTHMUS_GPU Range tapsAt(int axis, int64_t o) const {
    int64_t start = o * stride[axis] - pad[axis], apart = dilation[axis];
    int64_t low = start >= 0 ? 0 : (-start + apart - 1) / apart;
    int64_t high = start >= in[axis] ? 0 : (in[axis] - start + apart - 1) / apart;
    return {low, std::max(low, std::min(high, kernel[axis]))};
  }
};

template <typename T> struct ConvAt {
  using S = GpuSum<T>;
  Shape s;
  const T *x, *w, *bias; // bias: null if none
  T *y;

  ISTHMUS_GPU void operator()(int64_t i) const {
    int32_t at[3];
    int64_t o, n = s.split(i, s.outputs, s.byOutChannels, &o, at);
    int64_t perGroup = s.groupChannels(), group = o / s.groupOutChannels();
    const ImageSteps &xAt = s.steps.x, &wAt = s.steps.w;
    const T *from = x + n * xAt.image + group * perGroup * xAt.channel;
    const T *tap = w + o * wAt.image;
    auto d = s.tapsAt(0, at[0]), h = s.tapsAt(1, at[1]), k = s.tapsAt(2, at[2]);
    S sum = 0;
    for (int64_t c = 0; c < perGroup; ++c, from += xAt.channel, tap += wAt.channel) {
      S part = 0; // per channel: short partial sums lose less precision
      for (int64_t kd = d.low; kd < d.high; ++kd)
        for (int64_t kh = h.low; kh < h.high; ++kh) {
          const T *row = from + xAt.place(s.position(0, at[0], kd), s.position(1, at[1], kh), 0);
          const T *weights = tap + wAt.place(kd, kh, 0);
          for (int64_t kw = k.low; kw < k.high; ++kw)
            part += S(row[s.position(2, at[2], kw) * xAt.at[2]]) * S(weights[kw * wAt.at[2]]);
        }
      sum += part;
    }
    y[i] = converted<T>(bias ? sum + S(bias[o]) : sum);
  }
};

template <typename T> struct TransposeAt {
  using S = GpuSum<T>;
  Shape s;
  const T *g, *w, *bias;
  T *x;

  // The output position whose tap k reads input position `at`, along an axis; -1 if there is none.
  ISTHMUS_GPU int32_t source(int axis, int32_t at, int64_t k) const {
    int32_t from = int32_t(at + s.pad[axis] - k * s.dilation[axis]),
            stride = int32_t(s.stride[axis]);
    if (from < 0 || (stride != 1 && from % stride != 0))
      return -1;
    int32_t o = stride == 1 ? from : from / stride;
    return o < s.out[axis] ? o : -1;
  }
  ISTHMUS_GPU void operator()(int64_t i) const {
    int32_t at[3];
    int64_t c, n = s.split(i, s.inputs, s.byChannels, &c, at);
    int64_t inGroup, group = s.byGroupChannels(c, &inGroup), perGroup = s.groupOutChannels();
    const ImageSteps &yAt = s.steps.y, &wAt = s.steps.w;
    const T *from = g + n * yAt.image + group * perGroup * yAt.channel;
    const T *tap = w + group * perGroup * wAt.image + inGroup * wAt.channel;
    S sum = 0;
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
      int32_t od = source(0, at[0], kd);
      for (int64_t kh = 0; od >= 0 && kh < s.kernel[1]; ++kh) {
        int32_t oh = source(1, at[1], kh);
        for (int64_t kw = 0; oh >= 0 && kw < s.kernel[2]; ++kw) {
          int32_t ow = source(2, at[2], kw);
          if (ow < 0)
            continue;
          const T *up = from + yAt.place(od, oh, ow);
          const T *weight = tap + wAt.place(kd, kh, kw);
          S part = 0; // per tap
          for (int64_t o = 0; o < perGroup; ++o)
            part += S(up[o * yAt.channel]) * S(weight[o * wAt.image]);
          sum += part;
        }
      }
    }
    x[i] = converted<T>(bias ? sum + S(bias[c]) : sum);
  }
};

// The lanes share the positions of all images.
template <typename T> struct WeightGradBody {
  using S = GpuSum<T>;
  Shape s;
  const T *g, *x;
  T *w;

  ISTHMUS_GPU void operator()(int64_t t, const Team &team) const {
    int32_t k[3];
    int64_t c, o = s.split(t, s.taps3, s.byGroupChannels, &c, k);
    const ImageSteps &xAt = s.steps.x, &yAt = s.steps.y;
    int64_t channel = o / s.groupOutChannels() * s.groupChannels() + c;
    S sum = team.reduce(
        s.batch * s.outPlane(), S(0),
        [&](S sum, int64_t i) {
          int32_t at[3];
          int64_t n = s.outputs.at(i, at), place = n * xAt.image + channel * xAt.channel;
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            int64_t p = s.position(a, at[a], k[a]);
            inside = inside && p >= 0 && p < s.in[a];
            place += p * xAt.at[a];
          }
          if (!inside)
            return sum;
          // Pixels of an image are `at[2]` elements apart in their order, in either layout.
          int64_t up = n * yAt.image + o * yAt.channel + (i - n * s.outPlane()) * yAt.at[2];
          return sum + S(g[up]) * S(x[place]);
        },
        Add());
    if (team.isFirst())
      w[t] = converted<T>(sum);
  }
};

struct Conv {
  template <typename T> static void run(const Launch &l) {
    const T *bias = l.call.operands.size() > 2 ? l.operand<T>(2) : nullptr;
    ConvAt<T> conv{Shape(l.call), l.operand<T>(0), l.operand<T>(1), bias, l.result<T>(0)};
    forEach(l.queue, l.call.results[0].elements(), [=] ISTHMUS_GPU(int64_t i) { conv(i); });
  }
};
struct ConvTranspose {
  template <typename T> static void run(const Launch &l) {
    const T *bias = l.call.operands.size() > 2 ? l.operand<T>(2) : nullptr;
    TransposeAt<T> conv{Shape(l.call), l.operand<T>(0), l.operand<T>(1), bias, l.result<T>(0)};
    forEach(l.queue, l.call.results[0].elements(), [=] ISTHMUS_GPU(int64_t i) { conv(i); });
  }
};
struct ConvWeightGrad {
  template <typename T> static void run(const Launch &l) {
    Shape s(l.call);
    forEachTeam(l.queue, l.call.results[0].elements(), s.batch * s.outPlane(),
                WeightGradBody<T>{s, l.operand<T>(0), l.operand<T>(1), l.result<T>(0)});
  }
};

// Elements are processed in packs of sixteen bytes, which may span several channels.
template <typename T>
void addBiasOf(const Queue &queue, const T *bias, int64_t channels, int64_t inner, int64_t n,
               T *y) {
  constexpr int N = kPackOf<T, T>;
  Divisor byChannels(channels), byInner(inner);
  forEach(queue, (n + N - 1) / N, [=] ISTHMUS_GPU(int64_t p) {
    int64_t within, channel;
    byChannels(byInner(p * N, &within), &channel);
    Pack<T, N> pack = loadPack<N>(y, p, n);
    for (int i = 0; i < N; ++i) {
      pack.element[i] = T(Compute<T>(pack.element[i]) + Compute<T>(bias[channel]));
      if (++within == inner) {
        within = 0;
        channel = channel + 1 == channels ? 0 : channel + 1;
      }
    }
    storePack(y, p, n, pack);
  });
}

} // namespace

void addBias(const Queue &queue, DType type, const void *bias, int64_t channels, int64_t inner,
             int64_t n, void *y) {
  dispatchFloat(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    addBiasOf<T>(queue, static_cast<const T *>(bias), channels, inner, n, static_cast<T *>(y));
  });
}

void registerConv(KernelTable &table) {
  table.add({"conv", kOwnLibrary, prepareGrid<runByOperand<Conv>>});
  table.add({"conv_transpose", kOwnLibrary, prepareGrid<runByOperand<ConvTranspose>>});
  table.add({"conv_weight_grad", kOwnLibrary, prepareGrid<runByOperand<ConvWeightGrad>>});
}

} // namespace isthmus::cuda
