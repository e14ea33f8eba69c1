// Reductions, and the gradients of max and min.

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/register.h"
#include "kernels/element/extremum.h"

namespace isthmus::cuda {
namespace {

// The sum, for floats divided by `count`: one, or for a mean the number of elements.
template <typename T> struct SumOp {
  static constexpr bool kWrites = false;
  using State = GpuSum<T>;
  const T *x;
  T *y;
  double count;

  ISTHMUS_GPU State start() const { return 0; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return elements.reduce(
        start(), [&](int64_t at, int64_t) { return State(Compute<T>(x[at])); }, Add(), Add());
  }
  ISTHMUS_GPU State fold(State a, State b) const { return Add()(a, b); }
  ISTHMUS_GPU void finish(int64_t out, State s) const {
    if constexpr (kIsFloat<T>)
      y[out] = converted<T>(double(s) / count);
    else
      y[out] = T(s);
  }
};

template <typename T> struct ProdOp {
  static constexpr bool kWrites = false;
  using State = std::conditional_t<kIsFloat<T>, double, int64_t>; // a product's error is relative
  const T *x;
  T *y;

  ISTHMUS_GPU State start() const { return 1; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return elements.reduce(
        start(), [&](int64_t at, int64_t) { return State(Compute<T>(x[at])); }, Mul(), Mul());
  }
  ISTHMUS_GPU State fold(State a, State b) const { return Mul()(a, b); }
  ISTHMUS_GPU void finish(int64_t out, State s) const { y[out] = T(Compute<T>(s)); }
};

template <typename T> struct ExtremumOp {
  static constexpr bool kWrites = false;
  using State = Compute<T>;
  const T *x;
  T *y;
  bool largest;

  ISTHMUS_GPU State start() const { return leastExtreme<T>(largest); }
  ISTHMUS_GPU State fold(State s, State v) const { // NaN enters and stays
    return (largest ? v > s : v < s) || v != v ? v : s;
  }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return elements.reduce(
        start(), [&](int64_t at, int64_t) { return State(x[at]); },
        [&](State s, State v) { return fold(s, v); }, [&](State a, State b) { return fold(a, b); });
  }
  ISTHMUS_GPU void finish(int64_t out, State s) const { y[out] = T(s); }
};

// g at the first extremum, or g divided among all extrema; zero elsewhere. If a shared extremum is
// NaN, so is the gradient of every element. dx may alias x: all of an output's elements are read
// before one is written.
template <typename T> struct ExtremumGradOp {
  static constexpr bool kWrites = true;
  using State = int64_t; // index of the first extremum, or number of extrema
  const T *g, *x, *y;
  T *dx;
  bool shares;

  ISTHMUS_GPU State start() const { return shares ? 0 : std::numeric_limits<int64_t>::max(); }
  ISTHMUS_GPU State fold(State a, State b) const { return shares ? a + b : a < b ? a : b; }
  ISTHMUS_GPU bool isOne(int64_t at, int64_t out) const {
    return isExtremum(Compute<T>(x[at]), Compute<T>(y[out]));
  }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t out) const {
    return elements.reduce(
        start(),
        [&](int64_t at, int64_t index) { return isOne(at, out) ? shares ? 1 : index : start(); },
        [&](State s, State v) { return fold(s, v); }, [&](State a, State b) { return fold(a, b); });
  }
  ISTHMUS_GPU void finish(int64_t, State) const {}
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t out, State s) const {
    using C = Compute<T>;
    const bool isNaN = shares && C(y[out]) != C(y[out]);
    const T given = isNaN    ? T(std::numeric_limits<C>::quiet_NaN())
                    : shares ? T(C(g[out]) / C(s))
                             : g[out];
    elements.write(dx, [&](int64_t at, int64_t index) {
      return isNaN || (shares ? isOne(at, out) : index == s) ? given : T(C(0));
    });
  }
};

// --- The calls

Division divisionOf(const OpCall &call, size_t x, Passes passes) {
  return divisionBy(call.attrs->getInts("axes"), call.operands[x], passes);
}

enum class Kind { Sum, Mean, Prod, Max, Min };

template <Kind kind> void runReduction(const Launch &l) {
  Division d = divisionOf(l.call, 0, Passes::One);
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = l.operand<T>(0);
    T *y = l.result<T>(0);
    if constexpr (kind == Kind::Prod)
      reduceBy(l.queue, d, ProdOp<T>{x, y}, l.args.workspace);
    else if constexpr (kind == Kind::Max || kind == Kind::Min)
      reduceBy(l.queue, d, ExtremumOp<T>{x, y, kind == Kind::Max}, l.args.workspace);
    else
      reduceBy(l.queue, d, SumOp<T>{x, y, kind == Kind::Mean ? double(d.length()) : 1},
               l.args.workspace);
  };
  if constexpr (kind == Kind::Mean)
    dispatchFloat(l.call.results[0].dtype, run);
  else
    dispatchNumber(l.call.results[0].dtype, run);
}
int64_t reductionWorkspace(const OpCall &call) {
  return divisionOf(call, 0, Passes::One).workspaceBytes(sizeof(int64_t));
}

void runExtremumGrad(const Launch &l) {
  Division d = divisionOf(l.call, 1, Passes::More);
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduceBy(l.queue, d,
             ExtremumGradOp<T>{l.operand<T>(0), l.operand<T>(1), l.operand<T>(2), l.result<T>(0),
                               l.call.attrs->getBool("share_ties")},
             l.args.workspace);
  });
}
int64_t extremumGradWorkspace(const OpCall &call) {
  return divisionOf(call, 1, Passes::More).workspaceBytes(sizeof(int64_t));
}

} // namespace

void registerReduce(KernelTable &table) {
  table.add({"sum", "cuda", prepareGrid<runReduction<Kind::Sum>, reductionWorkspace>});
  table.add({"mean", "cuda", prepareGrid<runReduction<Kind::Mean>, reductionWorkspace>});
  table.add({"prod", "cuda", prepareGrid<runReduction<Kind::Prod>, reductionWorkspace>});
  table.add({"max", "cuda", prepareGrid<runReduction<Kind::Max>, reductionWorkspace>});
  table.add({"min", "cuda", prepareGrid<runReduction<Kind::Min>, reductionWorkspace>});
  table.add({"max_grad", "cuda", prepareGrid<runExtremumGrad, extremumGradWorkspace>});
  table.add({"min_grad", "cuda", prepareGrid<runExtremumGrad, extremumGradWorkspace>});
}

} // namespace isthmus::cuda
