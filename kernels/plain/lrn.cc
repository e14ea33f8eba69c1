// Local response normalisation. The backward kernel computes the sums of a window again for each
// element that reads them: windows are small, and no memory of x's size is needed.

#include "kernels/plain/by_type.h"
#include "kernels/plain/norm.h"

namespace isthmus::plain {
namespace {

struct Lrn {                                        // x as [batch, channels, inner]
  int64_t batch, channels, inner = 1, below, above; // channels of a window beside its own
  double alpha, beta, bias;                         // alpha over the size

  explicit Lrn(const OpCall &call) {
    const Type &x = call.results[0];
    batch = x.dims[0];
    channels = x.dims[1];
    for (int64_t d : llvm::makeArrayRef(x.dims).drop_front(2))
      inner *= d;
    int64_t size = call.attrs->getInt("size");
    below = (size - 1) / 2;
    above = size / 2;
    alpha = call.attrs->getFloat("alpha") / double(size);
    beta = call.attrs->getFloat("beta");
    bias = call.attrs->getFloat("bias");
  }
  // What x at channel c is divided by, before the power; `x` points to channel 0.
  template <typename T> double base(const T *x, int64_t c) const {
    double sum = 0;
    for (int64_t k = std::max<int64_t>(0, c - below); k <= std::min(channels - 1, c + above); ++k)
      sum += double(x[k * inner]) * double(x[k * inner]);
    return bias + alpha * sum;
  }
  // f(channel, index of its row's first element)
  template <typename F> void forEachRow(F f) const {
    int64_t work = inner * (below + above + 8);
    parallelFor(batch * channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t r = begin; r < end; ++r)
                    f(r % channels, r / channels * channels * inner);
                });
  }
};

struct LrnForward {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Lrn s(call);
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    s.forEachRow([&](int64_t c, int64_t first) {
      for (int64_t i = first; i < first + s.inner; ++i)
        y[i + c * s.inner] =
            converted<T>(double(x[i + c * s.inner]) * std::pow(s.base(x + i, c), -s.beta));
    });
  }
};

struct LrnBackward {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Lrn s(call);
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    T *dx = result<T>(args, 0);
    s.forEachRow([&](int64_t c, int64_t first) {
      for (int64_t i = first; i < first + s.inner; ++i) {
        double others = 0; // those whose windows hold c
        for (int64_t k = std::max<int64_t>(0, c - s.above);
             k <= std::min(s.channels - 1, c + s.below); ++k)
          others += double(g[i + k * s.inner]) * double(x[i + k * s.inner]) *
                    std::pow(s.base(x + i, k), -s.beta - 1);
        int64_t at = i + c * s.inner;
        dx[at] = converted<T>(double(g[at]) * std::pow(s.base(x + i, c), -s.beta) -
                              2 * s.alpha * s.beta * double(x[at]) * others);
      }
    });
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void addLrnKernels(KernelTable &table) {
  using namespace plain;
  table.add({"lrn", "plain", prepareThreaded<runFloat<LrnForward>>});
  table.add({"lrn_grad", "plain", prepareThreaded<runFloat<LrnBackward>>});
}

} // namespace isthmus
