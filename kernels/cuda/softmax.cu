// Softmax, its logarithm, and log-sum-exp.

#include "kernels/cuda/log_sum.h"
#include "kernels/cuda/register.h"

namespace isthmus::cuda {
namespace {

// y may alias x: after the sums, each element of x is read only by the thread that overwrites it.
template <typename T> struct SoftmaxOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  using State = LogSum<C>;
  const T *x;
  T *y;
  bool logarithm, zeroIfMasked;

  ISTHMUS_GPU State start() const { return {}; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return logSumOf(elements, x);
  }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  ISTHMUS_GPU void finish(int64_t, State) const {}
  ISTHMUS_GPU C factor(C sum) const { return zeroIfMasked && sum == 0 ? C(0) : C(1) / sum; }
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t, State s) const {
    // log_softmax subtracts the maximum first, because it may be far larger than the result.
    C base = s.softmaxBase(), rest = logarithm ? C(std::log(double(s.sum))) : factor(s.sum);
    elements.write(y, [&](int64_t at, int64_t) {
      C less = C(x[at]) - base;
      return T(logarithm ? less - rest : expOf(less) * rest);
    });
  }
};

// y (g - sum(g y)); for log_softmax g - exp(y) sum(g).
template <typename T> struct SoftmaxGradOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  using State = C;
  const T *g, *y;
  T *dx;
  bool logarithm;

  ISTHMUS_GPU State start() const { return 0; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return elements.reduce(
        start(), [&](int64_t at, int64_t) { return logarithm ? C(g[at]) : C(g[at]) * C(y[at]); },
        Add(), Add());
  }
  ISTHMUS_GPU State fold(State a, State b) const { return a + b; }
  ISTHMUS_GPU void finish(int64_t, State) const {}
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t, State s) const {
    elements.write(dx, [&](int64_t at, int64_t) {
      C up = C(g[at]), of = C(y[at]);
      return T(logarithm ? up - expOf(of) * s : of * (up - s));
    });
  }
};

Division divisionOf(const OpCall &call) {
  return divisionBy(call.attrs->getInt("axis"), call.operands[0], Passes::More);
}
int64_t workspaceOf(const OpCall &call) {
  return divisionOf(call).workspaceBytes(sizeof(LogSum<double>));
}

template <bool logarithm> struct Softmax {
  template <typename T> static void run(const Launch &l) {
    bool zeroIfMasked = !logarithm && l.call.attrs->getBool("zero_if_masked");
    reduceBy(l.queue, divisionOf(l.call),
             SoftmaxOp<T>{l.operand<T>(0), l.result<T>(0), logarithm, zeroIfMasked},
             l.args.workspace);
  }
};
template <bool logarithm> struct SoftmaxGrad {
  template <typename T> static void run(const Launch &l) {
    reduceBy(l.queue, divisionOf(l.call),
             SoftmaxGradOp<T>{l.operand<T>(0), l.operand<T>(1), l.result<T>(0), logarithm},
             l.args.workspace);
  }
};

Division logSumDivision(const OpCall &call) {
  return divisionBy(call.attrs->getInts("axes"), call.operands[0], Passes::More);
}
int64_t logSumWorkspace(const OpCall &call) {
  return logSumDivision(call).workspaceBytes(sizeof(LogSum<double>));
}
struct LogSumExp {
  template <typename T> static void run(const Launch &l) {
    reduceBy(l.queue, logSumDivision(l.call), LogSumOp<T, T>{l.operand<T>(0), l.result<T>(0)},
             l.args.workspace);
  }
};

} // namespace

void registerSoftmax(KernelTable &table) {
  table.add({"softmax", "cuda", prepareGrid<runByOperand<Softmax<false>>, workspaceOf>});
  table.add({"softmax_grad", "cuda", prepareGrid<runByOperand<SoftmaxGrad<false>>, workspaceOf>});
  table.add({"log_softmax", "cuda", prepareGrid<runByOperand<Softmax<true>>, workspaceOf>});
  table.add(
      {"log_softmax_grad", "cuda", prepareGrid<runByOperand<SoftmaxGrad<true>>, workspaceOf>});
  table.add({"logsumexp", "cuda", prepareGrid<runByOperand<LogSumExp>, logSumWorkspace>});
}

} // namespace isthmus::cuda
