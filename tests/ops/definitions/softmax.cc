// Softmax, and the losses over classes.

#include "tests/ops/definitions/definitions.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::definitions {
namespace {

Number logSum(const std::vector<Number> &v) {
  Number sum = 0;
  for (Number x : v)
    sum += std::exp(x);
  return std::log(sum);
}

// An element inf makes all of its line NaN.
Number softmaxSum(const std::vector<Number> &v) {
  return llvm::is_contained(v, std::numeric_limits<Number>::infinity()) ? kNaN : logSum(v);
}

template <bool logarithm> void softmax(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank());
  forEachLine(x[0], axis, [&](const Index &first) {
    const std::vector<Number> v = line(x[0], first, axis);
    const Number sum = softmaxSum(v);
    for (size_t i = 0; i < v.size(); ++i)
      y[0][with(first, axis, int64_t(i))] = logarithm ? v[i] - sum : std::exp(v[i] - sum);
  });
}
template <bool logarithm> void softmaxGrad(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank());
  forEachLine(x[0], axis, [&](const Index &first) {
    const std::vector<Number> g = line(x[0], first, axis), r = line(x[1], first, axis);
    Number sum = 0;
    for (size_t i = 0; i < g.size(); ++i)
      sum += logarithm ? g[i] : g[i] * r[i];
    for (size_t i = 0; i < g.size(); ++i)
      y[0][with(first, axis, int64_t(i))] =
          logarithm ? g[i] - std::exp(r[i]) * sum : r[i] * (g[i] - sum);
  });
}

// --- Losses. Labels have the sizes of x without the axis of the classes.

struct Labels {
  const OpCall &call;
  const Numbers &labels;
  int64_t axis, classes;
  const std::string &reduction = call.attrs->getString("reduction");

  Labels(const OpCall &call, const Numbers &labels, const Type &x)
      : call(call), labels(labels), axis(axisOf(call, x.rank())), classes(x.dims[size_t(axis)]) {}
  bool counts(Sizes at) const {
    return !llvm::is_contained(call.attrs->getInts("ignore"), int64_t(labels[at]));
  }
  bool isClass(Sizes at) const { return labels[at] >= 0 && labels[at] < classes; }
  Number divisor() const {
    Number n = 0;
    forEachIndex(labels.type.dims, [&](const Index &at) { n += counts(at); });
    return reduction == "mean" ? n : 1;
  }
  // The position in x of class c beside label `at`.
  Index in(Sizes at, int64_t c) const {
    return joined(joined(at.take_front(axis), {c}), at.drop_front(axis));
  }

  // Reduces the losses of the labels, lossAt(label, position of its class in x).
  template <typename F> void reduce(Numbers &y, F lossAt) const {
    forEachIndex(labels.type.dims, [&](const Index &at) {
      const Number loss = !counts(at)    ? 0
                          : !isClass(at) ? kNaN
                                         : lossAt(at, in(at, int64_t(labels[at])));
      y[reduction == "none" ? Sizes(at) : Sizes()] += loss;
    });
    for (Number &v : y.values)
      v /= divisor();
  }
  // Calls f(label, position in x, whether it is that of the label's class, gradient of its loss).
  template <typename F> void forEachGradient(const Numbers &g, F f) const {
    const Number share = 1 / divisor();
    forEachIndex(labels.type.dims, [&](const Index &at) {
      for (int64_t c = 0; c < classes && counts(at); ++c)
        f(at, in(at, c), c == labels[at], reduction == "none" ? g[at] : g[Sizes()] * share);
    });
  }
};

void crossEntropy(const OpCall &call, Operands x, Results y) {
  const Labels labels(call, x[1], x[0].type);
  forEachIndex(y[1].type.dims, [&](const Index &at) {
    y[1][at] = softmaxSum(line(x[0], labels.in(at, 0), labels.axis));
  });
  labels.reduce(y[0], [&](const Index &at, const Index &in) { return y[1][at] - x[0][in]; });
}
void crossEntropyGrad(const OpCall &call, Operands x, Results y) {
  Labels(call, x[2], x[1].type)
      .forEachGradient(x[0], [&](const Index &at, const Index &in, bool isLabel, Number g) {
        y[0][in] = (std::exp(x[1][in] - x[3][at]) - isLabel) * g;
      });
}
void nll(const OpCall &call, Operands x, Results y) {
  Labels(call, x[1], x[0].type).reduce(y[0], [&](const Index &, const Index &in) {
    return -x[0][in];
  });
}
void nllGrad(const OpCall &call, Operands x, Results y) {
  Labels(call, x[1], y[0].type)
      .forEachGradient(x[0], [&](const Index &, const Index &in, bool isLabel, Number g) {
        y[0][in] = isLabel ? -g : 0;
      });
}

} // namespace

void defineSoftmax(Table &t) {
  t["softmax"] = {softmax<false>};
  t["log_softmax"] = {softmax<true>};
  t["softmax_grad"] = {softmaxGrad<false>};
  t["log_softmax_grad"] = {softmaxGrad<true>};
  t["cross_entropy"] = {crossEntropy};
  t["cross_entropy_grad"] = {crossEntropyGrad};
  t["nll"] = {nll};
  t["nll_grad"] = {nllGrad};
}

} // namespace isthmus::definitions
