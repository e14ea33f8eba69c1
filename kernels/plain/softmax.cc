// Softmax and its logarithm.

#include "kernels/plain/by_type.h"
#include "kernels/plain/class_axis.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

struct Softmax {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.operands[0], call.attrs->getInt("axis"));
    const bool zeroIfMasked = call.attrs->getBool("zero_if_masked");
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    s.forEachPiece([&](int64_t first, int64_t count) {
      C most[ClassShape::kPiece];
      double sums[ClassShape::kPiece];
      maxColumns(s, first, count, x, most);
      auto factor = [&](int64_t i) { return zeroIfMasked && sums[i] == 0 ? C(0) : C(1 / sums[i]); };
      // The exponentials are stored in y, so that each is computed once.
      if constexpr (std::is_same_v<T, C>) {
        forEachElement(s, first, count,
                       [&](int64_t at, int64_t i) { y[at] = expOf(x[at] - most[i]); });
        sumColumns(s, first, count, sums, [&](int64_t at, int64_t) { return double(y[at]); });
        forEachElement(s, first, count, [&](int64_t at, int64_t i) { y[at] = y[at] * factor(i); });
      } else {
        sumColumns(s, first, count, sums,
                   [&](int64_t at, int64_t i) { return double(expOf(C(x[at]) - most[i])); });
        forEachElement(s, first, count, [&](int64_t at, int64_t i) {
          y[at] = T(expOf(C(x[at]) - most[i]) * factor(i));
        });
      }
    });
  }
};

struct LogSoftmax {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.operands[0], call.attrs->getInt("axis"));
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    s.forEachPiece([&](int64_t first, int64_t count) {
      double lse[ClassShape::kPiece];
      logSums(s, first, count, x, lse);
      forEachElement(s, first, count,
                     [&](int64_t at, int64_t i) { y[at] = T(C(double(x[at]) - lse[i])); });
    });
  }
};

struct SoftmaxGrad { // y (g - sum(g y))
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.operands[0], call.attrs->getInt("axis"));
    const T *g = operand<T>(args, 0), *y = operand<T>(args, 1);
    T *dx = result<T>(args, 0);
    s.forEachPiece([&](int64_t first, int64_t count) {
      double sums[ClassShape::kPiece];
      sumColumns(s, first, count, sums,
                 [&](int64_t at, int64_t) { return double(g[at]) * double(y[at]); });
      forEachElement(s, first, count, [&](int64_t at, int64_t i) {
        dx[at] = T(C(y[at]) * (C(g[at]) - C(sums[i])));
      });
    });
  }
};

struct LogSoftmaxGrad { // g - exp(y) sum(g)
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.operands[0], call.attrs->getInt("axis"));
    const T *g = operand<T>(args, 0), *y = operand<T>(args, 1);
    T *dx = result<T>(args, 0);
    s.forEachPiece([&](int64_t first, int64_t count) {
      double sums[ClassShape::kPiece];
      sumColumns(s, first, count, sums, [&](int64_t at, int64_t) { return double(g[at]); });
      forEachElement(s, first, count, [&](int64_t at, int64_t i) {
        dx[at] = T(C(g[at]) - expOf(C(y[at])) * C(sums[i]));
      });
    });
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainSoftmax(KernelTable &table) {
  using namespace plain;
  table.add({"softmax", "plain", prepareThreaded<runFloat<Softmax>>});
  table.add({"softmax_grad", "plain", prepareThreaded<runFloat<SoftmaxGrad>>});
  table.add({"log_softmax", "plain", prepareThreaded<runFloat<LogSoftmax>>});
  table.add({"log_softmax_grad", "plain", prepareThreaded<runFloat<LogSoftmaxGrad>>});
}

} // namespace isthmus
