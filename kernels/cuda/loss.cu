// Losses over classes.

#include "kernels/cuda/log_sum.h"
#include "kernels/cuda/register.h"
#include "kernels/element/labels.h"

namespace isthmus::cuda {
namespace {

// The attributes that govern labels, in a form that kernels can capture.
struct LabelRule {
  static constexpr int kMost = 64; // labels to ignore; calls with more are declined
  int64_t ignore[kMost];
  int ignored = 0;
  Reduction reduction;

  static bool takes(const OpCall &call) { return call.attrs->getInts("ignore").size() <= kMost; }
  explicit LabelRule(const OpCall &call) : reduction(reductionOf(*call.attrs)) {
    for (int64_t label : call.attrs->getInts("ignore"))
      ignore[ignored++] = label;
  }
  ISTHMUS_GPU bool counts(int64_t label) const {
    for (int i = 0; i < ignored; ++i)
      if (ignore[i] == label)
        return false;
    return true;
  }
};

// The labels of x, whose class axis is `axis`.
template <typename L> struct Labels {
  const L *label;
  int64_t classes, count;
  Divisor inner;
  int64_t innerSize = 1;

  Labels(const L *label, const Type &x, int64_t axis) : label(label) {
    axis = axis < 0 ? axis + x.rank() : axis;
    classes = x.dims[axis];
    count = 1;
    for (int64_t a = 0; a < x.rank(); ++a) {
      count *= a == axis ? 1 : x.dims[a];
      innerSize *= a > axis ? x.dims[a] : 1;
    }
    inner = Divisor(innerSize);
  }
  // The index in x of class `k` for label n.
  ISTHMUS_GPU int64_t at(int64_t n, int64_t k) const {
    int64_t rest, outer = inner(n, &rest);
    return (outer * classes + k) * innerSize + rest;
  }
  ISTHMUS_GPU bool isClass(int64_t n) const { return label[n] >= 0 && label[n] < classes; }
};

// The sum of the losses, lse - x at each label (nll: without lse), and the number of labels that
// count.
template <typename T, typename L> struct LossOp {
  static constexpr bool kWrites = false;
  struct State {
    double sum;
    int64_t count;
  };
  const T *x;
  const Compute<T> *lse;
  Labels<L> labels;
  LabelRule rule;
  Compute<T> *loss;

  ISTHMUS_GPU double lossAt(int64_t n) const {
    if (!labels.isClass(n))
      return std::numeric_limits<double>::quiet_NaN();
    return (lse ? double(lse[n]) : 0.0) - double(x[labels.at(n, labels.label[n])]);
  }
  ISTHMUS_GPU State start() const { return {0, 0}; }
  ISTHMUS_GPU State fold(State a, State b) const { return {a.sum + b.sum, a.count + b.count}; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return elements.reduce(
        start(),
        [&](int64_t n, int64_t) {
          return rule.counts(labels.label[n]) ? State{lossAt(n), 1} : start();
        },
        [&](State s, State v) { return fold(s, v); }, [&](State a, State b) { return fold(a, b); });
  }
  ISTHMUS_GPU void finish(int64_t, State s) const {
    *loss = Compute<T>(rule.reduction == Reduction::Mean ? s.sum / double(s.count) : s.sum);
  }
};

// A division that reduces all labels.
Division overLabels(const Type &labels) {
  return Division(
      labels.dims, [](int64_t) { return true; }, Passes::One);
}

template <typename T, typename L>
void reduceLosses(const Launch &l, const Compute<T> *lse, void *workspace) {
  LossOp<T, L> op{l.operand<T>(0), lse,
                  Labels<L>(l.operand<L>(1), l.call.operands[0], l.call.attrs->getInt("axis")),
                  LabelRule(l.call), l.result<Compute<T>>(0)};
  if (op.rule.reduction != Reduction::None)
    return reduceBy(l.queue, overLabels(l.call.operands[1]), op, workspace);
  forEach(l.queue, op.labels.count, [=] ISTHMUS_GPU(int64_t n) {
    op.loss[n] = Compute<T>(op.rule.counts(op.labels.label[n]) ? op.lossAt(n) : 0.0);
  });
}
int64_t lossWorkspace(const OpCall &call) {
  return overLabels(call.operands[1]).workspaceBytes(2 * sizeof(double));
}

Division overClasses(const OpCall &call, size_t x) {
  return divisionBy(call.attrs->getInt("axis"), call.operands[x], Passes::More);
}

struct CrossEntropy {
  template <typename T, typename L> static void run(const Launch &l) {
    using C = Compute<T>;
    C *lse = l.result<C>(1);
    reduceBy(l.queue, overClasses(l.call, 0), LogSumOp<T, C>{l.operand<T>(0), lse, /*isForSoftmax=*/true},
             l.args.workspace);
    reduceLosses<T, L>(l, lse, l.args.workspace);
  }
  static int64_t workspace(const OpCall &call) {
    return std::max(overClasses(call, 0).workspaceBytes(sizeof(LogSum<double>)),
                    lossWorkspace(call));
  }
};

struct Nll {
  template <typename T, typename L> static void run(const Launch &l) {
    reduceLosses<T, L>(l, nullptr, l.args.workspace);
  }
};

// The gradient of the loss of each label that counts, for the mean: g divided by their number.
template <typename L, typename C> struct ShareOp {
  static constexpr bool kWrites = false;
  using State = int64_t;
  const L *label;
  LabelRule rule;
  const C *g;
  C *share;

  ISTHMUS_GPU State start() const { return 0; }
  ISTHMUS_GPU State fold(State a, State b) const { return a + b; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return elements.reduce(
        start(), [&](int64_t n, int64_t) { return State(rule.counts(label[n])); }, Add(), Add());
  }
  ISTHMUS_GPU void finish(int64_t, State s) const { *share = C(double(*g) / double(s)); }
};

// The gradients of the losses of labels that count: one for all labels, or one each.
template <typename C> struct LabelGrads {
  const C *g;
  bool each;

  ISTHMUS_GPU C at(int64_t n) const { return g[each ? n : 0]; }
};
template <typename C, typename L> LabelGrads<C> labelGrads(const Launch &l, size_t labels) {
  LabelRule rule(l.call);
  const C *g = l.operand<C>(0);
  if (rule.reduction != Reduction::Mean)
    return {g, rule.reduction == Reduction::None};
  double *share = l.workspace<double>(); // holds a C; the states of pieces follow
  reduceBy(l.queue, overLabels(l.call.operands[labels]),
           ShareOp<L, C>{l.operand<L>(labels), rule, g, reinterpret_cast<C *>(share)}, share + 1);
  return {reinterpret_cast<C *>(share), false};
}
template <size_t labels> int64_t gradWorkspace(const OpCall &call) {
  if (reductionOf(*call.attrs) != Reduction::Mean)
    return 0;
  return int64_t(sizeof(double)) +
         overLabels(call.operands[labels]).workspaceBytes(sizeof(int64_t));
}

// Calls f(index in x, index of its label, class) for each element of x.
template <typename L, typename F>
void forEachClass(const Queue &queue, const Labels<L> &labels, F f) {
  Divisor inner = labels.inner, classes(labels.classes);
  int64_t innerSize = labels.innerSize;
  forEach(queue, labels.count * labels.classes, [=] ISTHMUS_GPU(int64_t i) {
    int64_t rest, k, row = inner(i, &rest), outer = classes(row, &k);
    f(i, outer * innerSize + rest, k);
  });
}

// (exp(x - lse) - [class is the label]) times the gradient of the label's loss. dx may alias x.
template <typename T, typename L> struct CrossEntropyGradAt {
  using C = Compute<T>;
  const T *x;
  const C *lse;
  T *dx;
  Labels<L> labels;
  LabelRule rule;
  LabelGrads<C> grads;

  ISTHMUS_GPU void operator()(int64_t i, int64_t n, int64_t k) const {
    if (!rule.counts(labels.label[n])) { // an exponential may be infinite
      dx[i] = T(C(0));
      return;
    }
    bool isNone = !labels.isClass(n); // not a class: the gradient of the first class is NaN
    C above = C(x[i]) - lse[n], part;
    if (isNone && k == 0)
      part = std::numeric_limits<C>::quiet_NaN();
    else if (!isNone && k == labels.label[n])
      part = std::expm1(above);
    else
      part = expOf(above);
    dx[i] = T(part * grads.at(n));
  }
};

struct CrossEntropyGrad {
  template <typename T, typename L> static void run(const Launch &l) {
    using C = Compute<T>;
    Labels<L> labels(l.operand<L>(2), l.call.operands[1], l.call.attrs->getInt("axis"));
    forEachClass(l.queue, labels,
                 CrossEntropyGradAt<T, L>{l.operand<T>(1), l.operand<C>(3), l.result<T>(0), labels,
                                          LabelRule(l.call), labelGrads<C, L>(l, 2)});
  }
};

template <typename T, typename L> struct NllGradAt {
  using C = Compute<T>;
  T *dx;
  Labels<L> labels;
  LabelRule rule;
  LabelGrads<C> grads;

  ISTHMUS_GPU void operator()(int64_t i, int64_t n, int64_t k) const {
    C value = 0;
    if (rule.counts(labels.label[n])) {
      if (!labels.isClass(n))
        value = k == 0 ? std::numeric_limits<C>::quiet_NaN() : C(0);
      else if (k == labels.label[n])
        value = -grads.at(n);
    }
    dx[i] = T(value);
  }
};

struct NllGrad {
  template <typename T, typename L> static void run(const Launch &l) {
    Labels<L> labels(l.operand<L>(1), l.call.results[0], l.call.attrs->getInt("axis"));
    forEachClass(l.queue, labels,
                 NllGradAt<T, L>{l.result<T>(0), labels, LabelRule(l.call),
                                 labelGrads<Compute<T>, L>(l, 1)});
  }
};

// Dispatches on the type of x and that of the labels, operand `labels`.
template <typename K, size_t labels> void runLoss(const Launch &l) {
  const Type &x = std::is_same_v<K, NllGrad> ? l.call.results[0] : l.call.operands[labels - 1];
  dispatchFloat(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatchInteger(l.call.operands[labels].dtype,
                    [&](auto label) { K::template run<T, typename decltype(label)::type>(l); });
  });
}

template <typename K, size_t labels, WorkspaceFunction workspace>
std::unique_ptr<PreparedKernel> prepareLoss(const OpCall &call, const KernelOptions &options) {
  if (!LabelRule::takes(call))
    return nullptr;
  return prepareGrid<runLoss<K, labels>, workspace>(call, options);
}

} // namespace

void registerLoss(KernelTable &table) {
  table.add({"cross_entropy", "cuda", prepareLoss<CrossEntropy, 1, CrossEntropy::workspace>});
  table.add({"cross_entropy_grad", "cuda", prepareLoss<CrossEntropyGrad, 2, gradWorkspace<2>>});
  table.add({"nll", "cuda", prepareLoss<Nll, 1, lossWorkspace>});
  table.add({"nll_grad", "cuda", prepareLoss<NllGrad, 1, gradWorkspace<1>>});
}

} // namespace isthmus::cuda
