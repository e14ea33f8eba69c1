// Losses over classes.

#include "kernels/element/labels.h"
#include "kernels/plain/class_axis.h"
#include "kernels/plain/lanes.h"
#include "kernels/plain/register.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::plain {
namespace {

// The attributes that govern labels.
struct LabelRule {
  Reduction reduction;
  llvm::ArrayRef<int64_t> ignore;

  explicit LabelRule(const OpCall &call)
      : reduction(reductionOf(*call.attrs)), ignore(call.attrs->getInts("ignore")) {}
  bool counts(int64_t label) const { return !llvm::is_contained(ignore, label); }

  // The divisor of the sum of losses.
  template <typename L> double divisor(const L *labels, int64_t n) const {
    if (reduction != Reduction::Mean)
      return 1;
    return ignore.empty() ? double(n)
                          : double(llvm::count_if(llvm::makeArrayRef(labels, n),
                                                  [&](L l) { return counts(l); }));
  }
};

// Reduces lossAt(n) over the labels n that count. For a label that is not a class lossAt returns
// NaN. The labels' losses are rounded and added as `sum` adds them, and the sum is divided as `div`
// divides: a loss that is taken for each label and reduced by those rows has the same bits.
template <typename L, typename C, typename F>
void reduceLosses(const LabelRule &rule, const L *labels, int64_t n, C *loss, F lossAt) {
  if (rule.reduction == Reduction::None) {
    parallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        loss[i] = rule.counts(labels[i]) ? C(lossAt(i)) : C(0);
    });
    return;
  }
  const C sum = C(foldAll<DoubleSum, C>(
      n, [&](int64_t i) { return rule.counts(labels[i]) ? double(C(lossAt(i))) : 0; }));
  *loss = rule.reduction == Reduction::Mean ? sum / C(rule.divisor(labels, n)) : sum;
}

// The index in x of label n's class; -1 if the label is not a class.
template <typename L> int64_t indexOf(const ClassShape &s, const L *labels, int64_t n) {
  int64_t label = labels[n];
  if (label < 0 || label >= s.classes)
    return -1;
  return (n / s.inner * s.classes + label) * s.inner + n % s.inner;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// L: type of the labels.
struct CrossEntropy {
  template <typename T, typename L> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.operands[0], call.attrs->getInt("axis"));
    const T *x = operand<T>(args, 0);
    const L *labels = operand<L>(args, 1);
    C *lse = result<C>(args, 1);
    s.forEachPiece([&](int64_t first, int64_t count) {
      double sums[ClassShape::kPiece];
      logSums(s, first, count, x, sums);
      for (int64_t i = 0; i < count; ++i)
        lse[s.label(first) + i] = C(sums[i]);
    });
    reduceLosses(LabelRule(call), labels, s.outer * s.inner, result<C>(args, 0), [&](int64_t n) {
      int64_t at = indexOf(s, labels, n);
      return at < 0 ? kNaN : double(lse[n]) - double(x[at]);
    });
  }
};

// The gradient of the loss of label n: zero if the label does not count.
template <typename C, typename L> struct LabelGrads {
  LabelRule rule;
  const C *g;
  const L *labels;
  double divisor;

  LabelGrads(const OpCall &call, const C *g, const L *labels, int64_t n)
      : rule(call), g(g), labels(labels), divisor(rule.divisor(labels, n)) {}
  C at(int64_t n) const {
    if (!rule.counts(labels[n]))
      return 0;
    return rule.reduction == Reduction::None ? g[n] : C(double(*g) / divisor);
  }
};

struct CrossEntropyGrad {
  template <typename T, typename L> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.operands[1], call.attrs->getInt("axis"));
    const T *x = operand<T>(args, 1);
    const L *labels = operand<L>(args, 2);
    const C *lse = operand<C>(args, 3);
    const LabelGrads<C, L> grads(call, operand<C>(args, 0), labels, s.outer * s.inner);
    T *dx = result<T>(args, 0);
    s.forEachPiece([&](int64_t first, int64_t count) {
      int64_t n = s.label(first);
      // atLabel: exp(x - lse) - 1, computed before dx may overwrite x.
      C scale[ClassShape::kPiece], atLabel[ClassShape::kPiece];
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = indexOf(s, labels, n + i);
        scale[i] = grads.at(n + i);
        atLabel[i] = at < 0 ? C(kNaN) : std::expm1(C(x[at]) - lse[n + i]);
      }
      forEachElement(s, first, count, [&](int64_t at, int64_t i) {
        dx[at] = T(expOf(C(x[at]) - lse[n + i]) * scale[i]);
      });
      for (int64_t i = 0; i < count && s.classes > 0; ++i)
        if (grads.rule.counts(labels[n + i])) {
          int64_t at = indexOf(s, labels, n + i);
          dx[at < 0 ? first + i : at] = T(atLabel[i] * scale[i]);
        } else { // an exponential may have been infinite, and infinity * 0 is NaN
          for (int64_t k = 0; k < s.classes; ++k)
            dx[first + k * s.inner + i] = T();
        }
    });
  }
};

struct Nll {
  template <typename T, typename L> static void run(const OpCall &call, const KernelArgs &args) {
    const ClassShape s(call.operands[0], call.attrs->getInt("axis"));
    const T *x = operand<T>(args, 0);
    const L *labels = operand<L>(args, 1);
    reduceLosses(LabelRule(call), labels, s.outer * s.inner, result<Compute<T>>(args, 0),
                 [&](int64_t n) {
                   int64_t at = indexOf(s, labels, n);
                   return at < 0 ? kNaN : -double(x[at]);
                 });
  }
};

struct NllGrad {
  template <typename T, typename L> static void run(const OpCall &call, const KernelArgs &args) {
    using C = Compute<T>;
    const ClassShape s(call.results[0], call.attrs->getInt("axis"));
    const L *labels = operand<L>(args, 1);
    const LabelGrads<C, L> grads(call, operand<C>(args, 0), labels, s.outer * s.inner);
    T *dx = result<T>(args, 0);
    s.forEachPiece([&](int64_t first, int64_t count) {
      int64_t n = s.label(first);
      forEachElement(s, first, count, [&](int64_t at, int64_t) { dx[at] = T(); });
      for (int64_t i = 0; i < count && s.classes > 0; ++i)
        if (grads.rule.counts(labels[n + i])) {
          int64_t at = indexOf(s, labels, n + i);
          dx[at < 0 ? first + i : at] = T(at < 0 ? C(kNaN) : -grads.at(n + i));
        }
    });
  }
};

// Dispatches on the type of x and that of the labels, operand `Labels`.
template <typename K, size_t Labels> void runLoss(const OpCall &call, const KernelArgs &args) {
  const Type &x = std::is_same_v<K, NllGrad> ? call.results[0] : call.operands[Labels - 1];
  dispatchFloat(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatchInteger(call.operands[Labels].dtype, [&](auto label) {
      K::template run<T, typename decltype(label)::type>(call, args);
    });
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainLoss(KernelTable &table) {
  using namespace plain;
  table.add({"cross_entropy", "plain", prepareThreaded<runLoss<CrossEntropy, 1>>});
  table.add({"cross_entropy_grad", "plain", prepareThreaded<runLoss<CrossEntropyGrad, 2>>});
  table.add({"nll", "plain", prepareThreaded<runLoss<Nll, 1>>});
  table.add({"nll_grad", "plain", prepareThreaded<runLoss<NllGrad, 1>>});
}

} // namespace isthmus
