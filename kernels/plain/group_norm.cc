// Group norm. x is [batch * groups, channels of a group, inner], so each group of an image is
// contiguous.

#include "kernels/plain/norm.h"

namespace isthmus::plain {
namespace {

struct GroupShape {
  int64_t batch, groups, channels, inner = 1; // channels per group

  GroupShape(const Type &x, int64_t groups)
      : batch(x.dims[0]), groups(groups), channels(x.dims[1] / groups) {
    for (int64_t d : llvm::makeArrayRef(x.dims).drop_front(2))
      inner *= d;
  }
  int64_t count() const { return channels * inner; }

  template <typename F> static void forEach(int64_t n, int64_t elements, F f) {
    parallelFor(n, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements)),
                [&](int64_t begin, int64_t end) {
                  vectorised([&] {
                    for (int64_t i = begin; i < end; ++i)
                      f(i);
                  });
                });
  }
  // Calls f(group, index of its first element).
  template <typename F> void forEachGroup(F f) const {
    forEach(batch * groups, count(), [&](int64_t r) { f(r, r * count()); });
  }
};

// P: type of scale and bias. Statistics are f32 for 16-bit x.
struct GroupNorm {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const GroupShape s(call.operands[0], call.attrs->getInt("groups"));
    const double epsilon = call.attrs->getFloat("epsilon"),
                 count = std::max(1.0, double(s.count()));
    const T *x = operand<T>(args, 0);
    const P *scale = operand<P>(args, 1), *bias = operand<P>(args, 2);
    T *y = result<T>(args, 0);
    C *means = result<C>(args, 1), *rstds = result<C>(args, 2);
    s.forEachGroup([&](int64_t r, int64_t first) {
      const T *group = x + first;
      double mean = rowSum(s.count(), [&](int64_t i) { return double(group[i]); }) / count;
      double var =
          rowSum(s.count(),
                 [&](int64_t i) { return (double(group[i]) - mean) * (double(group[i]) - mean); }) /
          count;
      const C m = C(mean), rstd = C(1 / std::sqrt(var + epsilon));
      means[r] = m;
      rstds[r] = rstd;
      for (int64_t c = 0; c < s.channels; ++c) {
        int64_t channel = r % s.groups * s.channels + c;
        const C factor = C(scale[channel]), add = C(bias[channel]);
        const T *from = group + c * s.inner;
        T *to = y + first + c * s.inner;
#pragma GCC ivdep
        for (int64_t i = 0; i < s.inner; ++i)
          to[i] = T((C(from[i]) - m) * rstd * factor + add);
      }
    });
  }
};

struct GroupNormGrad {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const GroupShape s(call.operands[1], call.attrs->getInt("groups"));
    const double count = std::max(1.0, double(s.count()));
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    const P *scale = operand<P>(args, 2);
    const C *means = operand<C>(args, 3), *rstds = operand<C>(args, 4);
    T *dx = result<T>(args, 0);
    P *dScale = result<P>(args, 1), *dBias = result<P>(args, 2);
    // The sums over all of g and x come first, because dx may alias either.
    GroupShape::forEach(s.groups * s.channels, s.batch * s.inner, [&](int64_t channel) {
      LaneSum sumG, sumGX;
      for (int64_t n = 0; n < s.batch; ++n) {
        int64_t r = n * s.groups + channel / s.channels;
        int64_t first = r * s.count() + channel % s.channels * s.inner;
        const double mean = double(means[r]), rstd = double(rstds[r]);
        sumG.addRow(s.inner, [&](int64_t i) { return double(g[first + i]); });
        sumGX.addRow(s.inner, [&](int64_t i) {
          return double(g[first + i]) * ((double(x[first + i]) - mean) * rstd);
        });
      }
      dScale[channel] = converted<P>(sumGX.total());
      dBias[channel] = converted<P>(sumG.total());
    });
    s.forEachGroup([&](int64_t r, int64_t first) {
      const double mean = double(means[r]), rstd = double(rstds[r]);
      const P *groupScale = scale + r % s.groups * s.channels;
      LaneSum sumG, sumGX;
      for (int64_t c = 0; c < s.channels; ++c) {
        const T *up = g + first + c * s.inner, *from = x + first + c * s.inner;
        const double by = double(groupScale[c]);
        sumG.addRow(s.inner, [&](int64_t i) { return double(up[i]) * by; });
        sumGX.addRow(s.inner,
                     [&](int64_t i) { return double(up[i]) * by * (double(from[i]) - mean); });
      }
      const C m = C(mean), factor = C(rstd), off = C(sumG.total() / count),
              slope = C(sumGX.total() * rstd * rstd / count);
      for (int64_t c = 0; c < s.channels; ++c) {
        const T *up = g + first + c * s.inner, *from = x + first + c * s.inner;
        T *to = dx + first + c * s.inner;
        const C by = C(groupScale[c]);
#pragma GCC ivdep
        for (int64_t i = 0; i < s.inner; ++i)
          to[i] = T((C(up[i]) * by - off - (C(from[i]) - m) * slope) * factor);
      }
    });
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void addGroupNormKernels(KernelTable &table) {
  using namespace plain;
  table.add({"group_norm", "plain", prepareThreaded<runNorm<GroupNorm, 0>>});
  table.add({"group_norm_grad", "plain", prepareThreaded<runNorm<GroupNormGrad, 1>>});
}

} // namespace isthmus
