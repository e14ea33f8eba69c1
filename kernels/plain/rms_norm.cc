// Root mean square norm.

#include "kernels/plain/norm.h"

namespace isthmus::plain {
namespace {

// P: type of the scale. rstd is f32 for 16-bit x.
struct RmsNorm {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const LayerShape s(call.operands[0], call.attrs->getInt("axis"));
    const double epsilon = call.attrs->getFloat("epsilon"), count = std::max(1.0, double(s.inner));
    const T *x = operand<T>(args, 0);
    const P *scale = operand<P>(args, 1);
    T *y = result<T>(args, 0);
    C *rstds = result<C>(args, 1);
    s.forEachRow([&](int64_t r) {
      const T *from = x + r * s.inner;
      T *to = y + r * s.inner;
      double square =
          rowSum(s.inner, [&](int64_t i) { return double(from[i]) * double(from[i]); }) / count;
      const C rstd = C(1 / std::sqrt(square + epsilon));
      rstds[r] = rstd;
#pragma GCC ivdep
      for (int64_t i = 0; i < s.inner; ++i)
        to[i] = T(C(from[i]) * rstd * C(scale[i]));
    });
  }
};

struct RmsNormGrad {
  template <typename T, typename P> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const LayerShape s(call.operands[1], call.attrs->getInt("axis"));
    const double count = std::max(1.0, double(s.inner));
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    const P *scale = operand<P>(args, 2);
    const C *rstds = operand<C>(args, 3);
    T *dx = result<T>(args, 0);
    // The sums over all of g and x come first, because dx may alias either.
    layerColumns<T, P>(s, g, x, /*means=*/nullptr, rstds, result<P>(args, 1), /*dBias=*/nullptr);
    s.forEachRow([&](int64_t r) {
      const T *up = g + r * s.inner, *from = x + r * s.inner;
      T *to = dx + r * s.inner;
      double rstd = double(rstds[r]);
      double sum = rowSum(
          s.inner, [&](int64_t i) { return double(up[i]) * double(scale[i]) * double(from[i]); });
      const C factor = C(rstd), slope = C(sum * rstd * rstd / count);
#pragma GCC ivdep
      for (int64_t i = 0; i < s.inner; ++i)
        to[i] = T((C(up[i]) * C(scale[i]) - C(from[i]) * slope) * factor);
    });
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void addRmsNormKernels(KernelTable &table) {
  using namespace plain;
  table.add({"rms_norm", "plain", prepareThreaded<runNorm<RmsNorm, 0>>});
  table.add({"rms_norm_grad", "plain", prepareThreaded<runNorm<RmsNormGrad, 1>>});
}

} // namespace isthmus
