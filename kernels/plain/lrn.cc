// Local response normalisation.

#include "kernels/element/lrn.h"
#include "kernels/plain/by_type.h"
#include "kernels/plain/norm.h"

namespace isthmus::plain {
namespace {

// Calls f(channel, index of the image's first element).
template <typename F> void forEachRow(const Lrn &s, F f) {
  int64_t work = s.inner * (s.below + s.above + 8);
  parallelFor(s.batch * s.channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r)
                  f(r % s.channels, r / s.channels * s.channels * s.inner);
              });
}

struct LrnForward {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Lrn s(call);
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    forEachRow(s, [&](int64_t c, int64_t first) {
      for (int64_t i = first; i < first + s.inner; ++i)
        y[i + c * s.inner] = s.forward<double>(x + i, c);
    });
  }
};

struct LrnBackward {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Lrn s(call);
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    T *dx = result<T>(args, 0);
    forEachRow(s, [&](int64_t c, int64_t first) {
      for (int64_t i = first; i < first + s.inner; ++i)
        dx[i + c * s.inner] = s.backward<double>(g + i, x + i, c);
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
