// Local response normalisation: one thread for each element.

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/register.h"
#include "kernels/element/lrn.h"

namespace isthmus::cuda {
namespace {

// Calls f(index of the same pixel at channel 0, channel, index) for each element.
template <typename F> void forEachElement(const Queue &queue, const Lrn &s, F f) {
  Divisor inner(s.inner), channels(s.channels);
  int64_t each = s.inner, plane = s.inner * s.channels;
  forEach(queue, s.batch * plane, [=] ISTHMUS_GPU(int64_t i) {
    int64_t rest, c, n = channels(inner(i, &rest), &c);
    f(n * plane + rest, c, n * plane + c * each + rest);
  });
}

template <typename T> struct ForwardAt {
  Lrn s;
  const T *x;
  T *y;
  ISTHMUS_GPU void operator()(int64_t first, int64_t c, int64_t at) const {
    y[at] = s.forward<GpuSum<T>>(x + first, c);
  }
};
template <typename T> struct BackwardAt {
  Lrn s;
  const T *g, *x;
  T *dx;
  ISTHMUS_GPU void operator()(int64_t first, int64_t c, int64_t at) const {
    dx[at] = s.backward<GpuSum<T>>(g + first, x + first, c);
  }
};

struct Forward {
  template <typename T> static void run(const Launch &l) {
    Lrn s(l.call);
    forEachElement(l.queue, s, ForwardAt<T>{s, l.operand<T>(0), l.result<T>(0)});
  }
};
struct Backward {
  template <typename T> static void run(const Launch &l) {
    Lrn s(l.call);
    forEachElement(l.queue, s, BackwardAt<T>{s, l.operand<T>(0), l.operand<T>(1), l.result<T>(0)});
  }
};

} // namespace

void registerLrn(KernelTable &table) {
  table.add({"lrn", "cuda", prepareGrid<runByOperand<Forward>>});
  table.add({"lrn_grad", "cuda", prepareGrid<runByOperand<Backward>>});
}

} // namespace isthmus::cuda
