// Batch norm and running averages.

#include "ir/ops/channels.h"
#include "ir/parts.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/register.h"
#include "kernels/element/norm.h"

namespace isthmus::cuda {
namespace {

// Each channel is an output, or each channel of each part of the batch; S is the type of
// statistics. y may alias x.
template <typename T, typename P, typename S> struct BatchNormOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  using State = Moments<C>;
  const T *x;
  const P *scale, *bias, *givenMean, *givenVar;
  T *y;
  S *mean, *var;
  C epsilon;
  bool training;
  int64_t channels;

  ISTHMUS_GPU State start() const { return {}; }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return momentsOf<C>(elements, x, /*centred=*/true);
  }
  ISTHMUS_GPU void finish(int64_t out, State s) const {
    mean[out] = converted<S>(s.mean);
    var[out] = converted<S>(s.variance());
  }
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t out, State s) const {
    C m = training ? s.mean : C(givenMean[out]), v = training ? s.variance() : C(givenVar[out]);
    const int64_t c = out % channels;
    C factor = C(scale[c]) / std::sqrt(v + epsilon), add = C(bias[c]);
    elements.write(y, [&](int64_t at, int64_t) { return T((C(x[at]) - m) * factor + add); });
  }
};

// Each channel is an output; nothing is summed. x may alias y.
template <typename T, typename P> struct BatchNormInverseOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  struct State {};
  const T *y;
  const P *scale, *bias, *mean, *var;
  T *x;
  C epsilon;

  ISTHMUS_GPU State start() const { return {}; }
  ISTHMUS_GPU State fold(State, State) const { return {}; }
  template <typename E> ISTHMUS_GPU State collect(const E &, int64_t) const { return {}; }
  ISTHMUS_GPU void finish(int64_t, State) const {}
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t out, State) const {
    C factor = std::sqrt(C(var[out]) + epsilon) / C(scale[out]), less = C(bias[out]),
      add = C(mean[out]);
    elements.write(x, [&](int64_t at, int64_t) { return T((C(y[at]) - less) * factor + add); });
  }
};

// dx = scale rstd (g - sumG / count - (x - mean) rstd^2 sumGX / count); dx may alias g or x.
template <typename T, typename P, typename S> struct BatchNormGradOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  using State = GradSums<C>;
  const T *g, *x;
  const P *scale;
  const S *mean, *var;
  T *dx;
  P *dScale, *dBias;
  C epsilon, count;
  bool training;
  int64_t channels;

  ISTHMUS_GPU C rstd(int64_t out) const { return C(1) / std::sqrt(C(var[out]) + epsilon); }
  ISTHMUS_GPU State start() const { return {}; }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t out) const {
    C m = C(mean[out]);
    return gradSumsOf<C>(elements, [&](int64_t at, int64_t) {
      return State{C(g[at]), C(g[at]) * (C(x[at]) - m)};
    });
  }
  ISTHMUS_GPU void finish(int64_t out, State s) const {
    dScale[out] = converted<P>(s.gx * rstd(out));
    dBias[out] = converted<P>(s.g);
  }
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t out, State s) const {
    C r = rstd(out), m = C(mean[out]), factor = C(scale[out % channels]) * r;
    C off = training ? s.g / count : C(0), slope = training ? s.gx * r * r / count : C(0);
    elements.write(dx, [&](int64_t at, int64_t) {
      return T((C(g[at]) - off - (C(x[at]) - m) * slope) * factor);
    });
  }
};

Division overChannel(const Type &type, const Attrs &attrs) {
  int64_t channels = channelAxis(attrs, type.rank());
  return Division(
      type.dims, [=](int64_t a) { return a != channels; }, Passes::More);
}
Division overChannel(const OpCall &call, size_t x) {
  return overChannel(call.operands[x], *call.attrs);
}

// Calls f(division, where it begins in x, its first row of statistics) for all parts together,
// whose outputs are in the order of the statistics: parts, then channels. Parts that are not equal
// come one by one.
template <typename F> void forEachDivision(const OpCall &call, size_t x, F f) {
  Type part = call.operands[x], before = part;
  const int64_t parts = call.attrs->getInt("parts"), examples = part.dims[0];
  if (examples % parts == 0) {
    const int64_t channels = 1 + (part.rank() > 2 ? channelAxis(*call.attrs, part.rank()) : 1);
    Dims dims = part.dims;
    dims[0] /= parts;
    dims.insert(dims.begin(), parts);
    f(Division(
          dims, [=](int64_t a) { return a != 0 && a != channels; }, Passes::More),
      int64_t(0), int64_t(0));
    return;
  }
  for (int64_t p = 0; p < parts; ++p) {
    before.dims[0] = beginOfPart(examples, parts, p);
    part.dims[0] = beginOfPart(examples, parts, p + 1) - before.dims[0];
    f(overChannel(part, *call.attrs), before.elements(), p);
  }
}
template <typename State> int64_t workspaceOfParts(const OpCall &call, size_t x) {
  int64_t most = 0;
  forEachDivision(call, x, [&](const Division &d, int64_t, int64_t) {
    most = std::max(most, d.workspaceBytes(sizeof(State)));
  });
  return most;
}

struct BatchNorm {
  template <typename T, typename P> static void run(const Launch &l) {
    const Attrs &attrs = *l.call.attrs;
    Division d = overChannel(l.call, 0);
    BatchNormOp<T, P, P> op{l.operand<T>(0),
                            l.operand<P>(1),
                            l.operand<P>(2),
                            l.operand<P>(3),
                            l.operand<P>(4),
                            l.result<T>(0),
                            l.result<P>(1),
                            l.result<P>(2),
                            Compute<T>(attrs.getFloat("epsilon")),
                            attrs.getBool("training"),
                            d.outputs()};
    if (op.training)
      return reduceBy(l.queue, d, op, l.args.workspace);
    applyBy(l.queue, d, op);
    forEach(l.queue, d.outputs(), [=] ISTHMUS_GPU(int64_t c) {
      op.mean[c] = op.givenMean[c];
      op.var[c] = op.givenVar[c];
    });
  }
  static int64_t workspace(const OpCall &call) {
    return overChannel(call, 0).workspaceBytes(sizeof(Moments<double>));
  }
};

struct BatchNormInverse {
  template <typename T, typename P> static void run(const Launch &l) {
    applyBy(l.queue, overChannel(l.call, 0),
            BatchNormInverseOp<T, P>{l.operand<T>(0), l.operand<P>(1), l.operand<P>(2),
                                     l.operand<P>(3), l.operand<P>(4), l.result<T>(0),
                                     Compute<T>(l.call.attrs->getFloat("epsilon"))});
  }
};

struct BatchNormGrad {
  template <typename T, typename P> static void run(const Launch &l) {
    const Attrs &attrs = *l.call.attrs;
    Division d = overChannel(l.call, 1);
    using C = Compute<T>;
    reduceBy(l.queue, d,
             BatchNormGradOp<T, P, P>{l.operand<T>(0), l.operand<T>(1), l.operand<P>(2),
                                      l.operand<P>(3), l.operand<P>(4), l.result<T>(0),
                                      l.result<P>(1), l.result<P>(2), C(attrs.getFloat("epsilon")),
                                      C(std::max<int64_t>(1, d.length())),
                                      attrs.getBool("training"), d.outputs()},
             l.args.workspace);
  }
  static int64_t workspace(const OpCall &call) {
    return overChannel(call, 1).workspaceBytes(sizeof(GradSums<double>));
  }
};

struct BatchNormParts {
  template <typename T, typename P> static void run(const Launch &l) {
    using C = Compute<T>;
    const int64_t channels = l.call.results[1].dims[1];
    forEachDivision(l.call, 0, [&](const Division &d, int64_t begin, int64_t row) {
      reduceBy(
          l.queue, d,
          BatchNormOp<T, P, C>{l.operand<T>(0) + begin, l.operand<P>(1), l.operand<P>(2), nullptr,
                               nullptr, l.result<T>(0) + begin, l.result<C>(1) + row * channels,
                               l.result<C>(2) + row * channels,
                               C(l.call.attrs->getFloat("epsilon")), /*training=*/true, channels},
          l.args.workspace);
    });
  }
  static int64_t workspace(const OpCall &call) {
    return workspaceOfParts<Moments<double>>(call, 0);
  }
};

struct BatchNormPartsGrad {
  template <typename T, typename P> static void run(const Launch &l) {
    using C = Compute<T>;
    const int64_t channels = l.call.results[1].dims[1];
    forEachDivision(l.call, 1, [&](const Division &d, int64_t begin, int64_t part) {
      const int64_t row = part * channels;
      reduceBy(l.queue, d,
               BatchNormGradOp<T, P, C>{
                   l.operand<T>(0) + begin, l.operand<T>(1) + begin, l.operand<P>(2),
                   l.operand<C>(3) + row, l.operand<C>(4) + row, l.result<T>(0) + begin,
                   l.result<P>(1) + row, l.result<P>(2) + row, C(l.call.attrs->getFloat("epsilon")),
                   C(std::max<int64_t>(1, d.length())), /*training=*/true, channels},
               l.args.workspace);
    });
  }
  static int64_t workspace(const OpCall &call) {
    return workspaceOfParts<GradSums<double>>(call, 1);
  }
};

struct RunningAverages {
  template <typename T> static void run(const Launch &l) {
    mapTwo<T, T>(l, RunningAverage<Compute<T>>(l.call.attrs->getFloat("momentum")));
  }
};

} // namespace

void registerNorm(KernelTable &table) {
  table.add({"batch_norm", "cuda", prepareGrid<runNorm<BatchNorm, 0>, BatchNorm::workspace>});
  table.add({"batch_norm_inverse", "cuda", prepareGrid<runNorm<BatchNormInverse, 0>>});
  table.add({"batch_norm_grad", "cuda",
             prepareGrid<runNorm<BatchNormGrad, 1>, BatchNormGrad::workspace>});
  table.add({"batch_norm_parts", "cuda",
             prepareGrid<runNorm<BatchNormParts, 0>, BatchNormParts::workspace>});
  table.add({"batch_norm_parts_grad", "cuda",
             prepareGrid<runNorm<BatchNormPartsGrad, 1>, BatchNormPartsGrad::workspace>});
  table.add({"running_average", "cuda", prepareGrid<runByOperand<RunningAverages>>});
}

} // namespace isthmus::cuda
