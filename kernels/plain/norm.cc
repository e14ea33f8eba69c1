// Normalisations. Statistics are summed in double in two passes (first the mean, then squared
// deviations), so that a large mean does not cancel the variance.

#include "kernels/plain/norm.h"
#include "ir/ops/channels.h"
#include "ir/parts.h"
#include "kernels/element/norm.h"
#include "kernels/plain/by_type.h"
#include "kernels/plain/register.h"
#include <utility>

// A result may alias an operand of the same size: no iteration reads what another one writes, which
// is the promise of `ivdep`.

namespace isthmus::plain {
namespace {

// x as [batch, channels, inner]: a channel has `batch` rows of `inner` elements. With channels last
// every pixel counts as an element of the batch.
struct ChannelShape {
  int64_t batch = 1, channels = 1, inner = 1;

  ChannelShape(const Type &x, const Attrs &attrs) {
    int64_t axis = channelAxis(attrs, x.rank());
    for (int64_t a = 0; a < x.rank(); ++a)
      (a < axis ? batch : a == axis ? channels : inner) *= x.dims[a];
  }
  int64_t count() const { return batch * inner; }
  int64_t row(int64_t n, int64_t c) const { return (n * channels + c) * inner; }
};

// The sum over a channel of term(index of the element).
template <typename Term> double channelSum(const ChannelShape &s, int64_t c, Term term) {
  LaneSum sum;
  // The channel is one row of strided elements.
  if (s.inner == 1) {
    sum.addRow(s.batch, [&](int64_t n) { return term(s.row(n, c)); });
    return sum.total();
  }
  for (int64_t n = 0; n < s.batch; ++n) {
    int64_t row = s.row(n, c);
    sum.addRow(s.inner, [&](int64_t i) { return term(row + i); });
  }
  return sum.total();
}

// Calls f(channel) for each channel. If rows are single elements, each channel touches every cache
// line of x; batch norm of a matrix pays that cost here.
template <typename F> void forEachChannel(const ChannelShape &s, F f) {
  parallelFor(s.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.count())),
              [&](int64_t begin, int64_t end) {
                vectorised([&] {
                  for (int64_t c = begin; c < end; ++c)
                    f(c);
                });
              });
}

struct ChannelStatistics {
  double mean, var;
};
template <typename T> ChannelStatistics statisticsOf(const ChannelShape &s, int64_t c, const T *x) {
  const double count = std::max(1.0, double(s.count()));
  const double mean = channelSum(s, c, [&](int64_t i) { return double(x[i]); }) / count;
  const double squares =
      channelSum(s, c, [&](int64_t i) { return (double(x[i]) - mean) * (double(x[i]) - mean); });
  return {mean, squares / count};
}

// y = (x - mean) factor + add, for a channel.
template <typename T>
void normalise(const ChannelShape &s, int64_t c, const T *x, T *y, Compute<T> mean,
               Compute<T> factor, Compute<T> add) {
  using C = Compute<T>;
  for (int64_t n = 0; n < s.batch; ++n) {
    const T *from = x + s.row(n, c);
    T *to = y + s.row(n, c);
#pragma GCC ivdep
    for (int64_t i = 0; i < s.inner; ++i)
      to[i] = T((C(from[i]) - mean) * factor + add);
  }
}

// dx of a channel; returns the gradients of its scale and bias.
template <typename T>
std::pair<double, double> channelGrad(const ChannelShape &s, int64_t c, const T *g, const T *x,
                                      T *dx, double scale, ChannelStatistics given, double epsilon,
                                      bool training) {
  using C = Compute<T>;
  const double count = std::max(1.0, double(s.count())), mean = given.mean,
               rstd = 1 / std::sqrt(given.var + epsilon);
  double sumG = channelSum(s, c, [&](int64_t i) { return double(g[i]); });
  double sumGX =
      channelSum(s, c, [&](int64_t i) { return double(g[i]) * (double(x[i]) - mean); }) * rstd;
  // dx = scale rstd (g - sumG / count - (x - mean) rstd sumGX / count)
  const C factor = C(scale * rstd), m = C(mean);
  const C off = training ? C(sumG / count) : C(0),
          slope = training ? C(sumGX * rstd / count) : C(0);
  for (int64_t n = 0; n < s.batch; ++n) {
    const T *up = g + s.row(n, c), *from = x + s.row(n, c);
    T *to = dx + s.row(n, c);
#pragma GCC ivdep
    for (int64_t i = 0; i < s.inner; ++i)
      to[i] = T((C(up[i]) - off - (C(from[i]) - m) * slope) * factor);
  }
  return {sumGX, sumG};
}

// T: type of x. P: type of the vectors.
struct BatchNorm {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ChannelShape s(call.operands[0], *call.attrs);
    const double epsilon = call.attrs->getFloat("epsilon");
    const bool training = call.attrs->getBool("training");
    const T *x = operand<T>(args, 0);
    const P *scale = operand<P>(args, 1), *bias = operand<P>(args, 2);
    const P *givenMean = operand<P>(args, 3), *givenVar = operand<P>(args, 4);
    T *y = result<T>(args, 0);
    P *meanOut = result<P>(args, 1), *varOut = result<P>(args, 2);
    forEachChannel(s, [&](int64_t c) {
      const ChannelStatistics used =
          training ? statisticsOf(s, c, x)
                   : ChannelStatistics{double(givenMean[c]), double(givenVar[c])};
      meanOut[c] = converted<P>(used.mean);
      varOut[c] = converted<P>(used.var);
      normalise(s, c, x, y, C(used.mean), C(double(scale[c]) / std::sqrt(used.var + epsilon)),
                C(bias[c]));
    });
  }
};

struct BatchNormInverse {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ChannelShape s(call.operands[0], *call.attrs);
    const double epsilon = call.attrs->getFloat("epsilon");
    const T *y = operand<T>(args, 0);
    const P *scale = operand<P>(args, 1), *bias = operand<P>(args, 2);
    const P *means = operand<P>(args, 3), *vars = operand<P>(args, 4);
    T *x = result<T>(args, 0);
    forEachChannel(s, [&](int64_t c) {
      const C factor = C(std::sqrt(double(vars[c]) + epsilon) / double(scale[c])),
              less = C(bias[c]), add = C(means[c]);
      for (int64_t n = 0; n < s.batch; ++n) {
        const T *from = y + s.row(n, c);
        T *to = x + s.row(n, c);
#pragma GCC ivdep
        for (int64_t i = 0; i < s.inner; ++i)
          to[i] = T((C(from[i]) - less) * factor + add);
      }
    });
  }
};

struct BatchNormGrad {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    const ChannelShape s(call.operands[1], *call.attrs);
    const double epsilon = call.attrs->getFloat("epsilon");
    const bool training = call.attrs->getBool("training");
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    const P *scale = operand<P>(args, 2), *means = operand<P>(args, 3), *vars = operand<P>(args, 4);
    T *dx = result<T>(args, 0);
    P *dScale = result<P>(args, 1), *dBias = result<P>(args, 2);
    forEachChannel(s, [&](int64_t c) {
      const auto [ofScale, ofBias] = channelGrad(
          s, c, g, x, dx, double(scale[c]), {double(means[c]), double(vars[c])}, epsilon, training);
      dScale[c] = converted<P>(ofScale);
      dBias[c] = converted<P>(ofBias);
    });
  }
};

// Calls f(shape of a part, its number, where it begins in x) for each part of the batch.
template <typename F> void forEachPart(const OpCall &call, size_t x, F f) {
  Type before = call.operands[x], part = before;
  const int64_t parts = call.attrs->getInt("parts"), examples = part.dims[0];
  for (int64_t p = 0; p < parts; ++p) {
    before.dims[0] = beginOfPart(examples, parts, p);
    part.dims[0] = beginOfPart(examples, parts, p + 1) - before.dims[0];
    f(ChannelShape(part, *call.attrs), p, before.elements());
  }
}

struct BatchNormParts {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>; // of statistics too
    const double epsilon = call.attrs->getFloat("epsilon");
    const P *scale = operand<P>(args, 1), *bias = operand<P>(args, 2);
    forEachPart(call, 0, [&](const ChannelShape &s, int64_t p, int64_t begin) {
      const T *x = operand<T>(args, 0) + begin;
      T *y = result<T>(args, 0) + begin;
      C *means = result<C>(args, 1) + p * s.channels, *vars = result<C>(args, 2) + p * s.channels;
      forEachChannel(s, [&](int64_t c) {
        const ChannelStatistics own = statisticsOf(s, c, x);
        means[c] = converted<C>(own.mean);
        vars[c] = converted<C>(own.var);
        normalise(s, c, x, y, C(own.mean), C(double(scale[c]) / std::sqrt(own.var + epsilon)),
                  C(bias[c]));
      });
    });
  }
};

struct BatchNormPartsGrad {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const double epsilon = call.attrs->getFloat("epsilon");
    const P *scale = operand<P>(args, 2);
    forEachPart(call, 1, [&](const ChannelShape &s, int64_t p, int64_t begin) {
      const T *g = operand<T>(args, 0) + begin, *x = operand<T>(args, 1) + begin;
      const int64_t row = p * s.channels;
      const C *means = operand<C>(args, 3) + row, *vars = operand<C>(args, 4) + row;
      T *dx = result<T>(args, 0) + begin;
      P *dScale = result<P>(args, 1) + row, *dBias = result<P>(args, 2) + row;
      forEachChannel(s, [&](int64_t c) {
        const auto [ofScale, ofBias] =
            channelGrad(s, c, g, x, dx, double(scale[c]), {double(means[c]), double(vars[c])},
                        epsilon, /*training=*/true);
        dScale[c] = converted<P>(ofScale);
        dBias[c] = converted<P>(ofBias);
      });
    });
  }
};

// P: type of scale and bias. Statistics are f32 for 16-bit x.
struct LayerNorm {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const LayerShape s(call.operands[0], call.attrs->getInt("axis"));
    const double epsilon = call.attrs->getFloat("epsilon"), count = std::max(1.0, double(s.inner));
    const T *x = operand<T>(args, 0);
    const P *scale = operand<P>(args, 1),
            *bias = call.operands.size() > 2 ? operand<P>(args, 2) : nullptr;
    T *y = result<T>(args, 0);
    C *means = result<C>(args, 1), *rstds = result<C>(args, 2);
    s.forEachRow([&](int64_t r) {
      const T *from = x + r * s.inner;
      T *to = y + r * s.inner;
      double mean = rowSum(s.inner, [&](int64_t i) { return double(from[i]); }) / count;
      double var =
          rowSum(s.inner,
                 [&](int64_t i) { return (double(from[i]) - mean) * (double(from[i]) - mean); }) /
          count;
      const C m = C(mean), rstd = C(1 / std::sqrt(var + epsilon));
      means[r] = m;
      rstds[r] = rstd;
      if (bias)
#pragma GCC ivdep
        for (int64_t i = 0; i < s.inner; ++i)
          to[i] = T((C(from[i]) - m) * rstd * C(scale[i]) + C(bias[i]));
      else
#pragma GCC ivdep
        for (int64_t i = 0; i < s.inner; ++i)
          to[i] = T((C(from[i]) - m) * rstd * C(scale[i]));
    });
  }
};

struct LayerNormGrad {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const LayerShape s(call.operands[1], call.attrs->getInt("axis"));
    const double count = std::max(1.0, double(s.inner));
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    const P *scale = operand<P>(args, 2);
    const C *means = operand<C>(args, 3), *rstds = operand<C>(args, 4);
    T *dx = result<T>(args, 0);
    // The sums over all of g and x come first, because dx may alias either.
    layerColumns<T, P>(s, g, x, means, rstds, result<P>(args, 1), result<P>(args, 2));
    s.forEachRow([&](int64_t r) {
      const T *up = g + r * s.inner, *from = x + r * s.inner;
      T *to = dx + r * s.inner;
      double mean = double(means[r]), rstd = double(rstds[r]);
      double sumG = rowSum(s.inner, [&](int64_t i) { return double(up[i]) * double(scale[i]); });
      double sumGX = rowSum(s.inner, [&](int64_t i) {
        return double(up[i]) * double(scale[i]) * (double(from[i]) - mean);
      });
      const C m = C(mean), factor = C(rstd), off = C(sumG / count),
              slope = C(sumGX * rstd * rstd / count);
#pragma GCC ivdep
      for (int64_t i = 0; i < s.inner; ++i)
        to[i] = T((C(up[i]) * C(scale[i]) - off - (C(from[i]) - m) * slope) * factor);
    });
  }
};

struct RunningAverages {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const RunningAverage<C> average(call.attrs->getFloat("momentum"));
    const T *old = operand<T>(args, 0), *now = operand<T>(args, 1);
    T *y = result<T>(args, 0);
    parallelFor(call.results[0].elements(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = T(average(C(old[i]), C(now[i])));
    });
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainNorm(KernelTable &table) {
  using namespace plain;
  table.add({"batch_norm", "plain", prepareThreaded<runNorm<BatchNorm, 0>>});
  table.add({"batch_norm_inverse", "plain", prepareThreaded<runNorm<BatchNormInverse, 0>>});
  table.add({"batch_norm_grad", "plain", prepareThreaded<runNorm<BatchNormGrad, 1>>});
  table.add({"batch_norm_parts", "plain", prepareThreaded<runNorm<BatchNormParts, 0>>});
  table.add({"batch_norm_parts_grad", "plain", prepareThreaded<runNorm<BatchNormPartsGrad, 1>>});
  table.add({"layer_norm", "plain", prepareThreaded<runNorm<LayerNorm, 0>>});
  table.add({"layer_norm_grad", "plain", prepareThreaded<runNorm<LayerNormGrad, 1>>});
  table.add({"running_average", "plain", prepareThreaded<runFloat<RunningAverages>>});
  addRmsNormKernels(table);
  addGroupNormKernels(table);
  addLrnKernels(table);
}

} // namespace isthmus
