// Reductions. One thread computes each output (`reduceAll`: each piece) in an order that depends on
// the shape alone: contiguous elements go to a fixed number of lanes, which are folded in a fixed
// order at the end.

#include "kernels/element/extremum.h"
#include "kernels/plain/division.h"
#include "kernels/plain/lanes.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// --- State and operations of each reduction

template <typename T> struct Sum {
  using Element = T;
  using State = Accumulate<T>;
  static State start() { return 0; }
  static State next(State s, Compute<T> v) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<State>(static_cast<uint64_t>(s) + static_cast<uint64_t>(v));
    else
      return s + v;
  }
  static State fold(State a, State b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<State>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  static T finish(State s, int64_t) { return static_cast<T>(static_cast<Compute<T>>(s)); }
};

template <typename T> struct Mean : Sum<T> {
  static T finish(double s, int64_t count) {
    return static_cast<T>(static_cast<Compute<T>>(s / double(count)));
  }
};

template <typename T> struct Max {
  using Element = T;
  using State = Compute<T>;
  static State start() {
    return kIsFloat<T> ? -std::numeric_limits<State>::infinity()
                       : std::numeric_limits<State>::lowest();
  }
  static State next(State s, State v) { return v > s || v != v ? v : s; } // NaN enters and stays
  static State fold(State a, State b) { return next(a, b); }
  static T finish(State s, int64_t) { return static_cast<T>(s); }
};

template <typename T> struct Min {
  using Element = T;
  using State = Compute<T>;
  static State start() {
    return kIsFloat<T> ? std::numeric_limits<State>::infinity() : std::numeric_limits<State>::max();
  }
  static State next(State s, State v) { return v < s || v != v ? v : s; }
  static State fold(State a, State b) { return next(a, b); }
  static T finish(State s, int64_t) { return static_cast<T>(s); }
};

template <typename T> struct Prod {
  using Element = T;
  using State = Accumulate<T>;
  static State start() { return 1; }
  static State next(State s, Compute<T> v) { return fold(s, static_cast<State>(v)); }
  static State fold(State a, State b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<State>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
  static T finish(State s, int64_t) { return static_cast<T>(static_cast<Compute<T>>(s)); }
};

// If the last axis is reduced: each output is a few contiguous rows.
template <typename R, typename T> void reduceRows(const Division &d, const T *x, T *y) {
  int64_t grain = kGrain / (d.perOutput() + 1) + 1;
  parallelFor(d.outerKept->elements(), grain, [&](int64_t begin, int64_t end) {
    Division::forEach(*d.outerKept, begin, end, [&](int64_t index, int64_t at) {
      Lanes<R> lanes;
      d.forEachReduced([&](int64_t row) {
        vectorisedFor<T>([&lanes, from = x + at + row, n = d.last] {
          lanes.addRow(n, [from](int64_t i) { return Compute<T>(from[i]); });
        });
      });
      y[index] = R::finish(lanes.folded(), d.perOutput());
    });
  });
}

// One output of very many contiguous elements.
template <typename R, typename T> void reduceAll(int64_t n, const T *x, T *y) {
  *y = R::finish(foldAll<R, T>(n, [x](int64_t i) { return Compute<T>(x[i]); }), n);
}

// If the last axis is kept: blocks of its outputs are summed row by row.
constexpr int64_t kBlock = 512;

template <typename R, typename T> void reduceColumns(const Division &d, const T *x, T *y) {
  using C = Compute<T>;
  int64_t blocks = (d.last + kBlock - 1) / kBlock;
  int64_t grain = kGrain / (d.perOutput() * std::min(d.last, kBlock) + 1) + 1;
  parallelFor(d.outerKept->elements() * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t column = task % blocks * kBlock, width = std::min(kBlock, d.last - column);
      Division::forEach(*d.outerKept, task / blocks, task / blocks + 1,
                        [&](int64_t index, int64_t at) {
                          typename R::State state[kBlock];
                          std::fill(state, state + width, R::start());
                          d.forEachReduced([&](int64_t row) {
                            vectorisedFor<T>([&state, from = x + at + row + column, width] {
                              for (int64_t j = 0; j < width; ++j)
                                state[j] = R::next(state[j], C(from[j]));
                            });
                          });
                          for (int64_t j = 0; j < width; ++j)
                            y[index * d.last + column + j] = R::finish(state[j], d.perOutput());
                        });
    }
  });
}

template <template <typename> typename R>
void runReduction(const OpCall &call, const KernelArgs &args) {
  Division d(call.operands[0], call.attrs->getInts("axes"));
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    if (!d.lastReduced)
      reduceColumns<R<T>>(d, x, y);
    else if (d.outerKept->elements() == 1 && d.outerReduced->elements() == 1)
      reduceAll<R<T>>(d.last, x, y);
    else
      reduceRows<R<T>>(d, x, y);
  };
  if constexpr (std::is_same_v<R<float>, Mean<float>>)
    dispatchFloat(call.results[0].dtype, run);
  else
    dispatchNumber(call.results[0].dtype, run);
}

// --- max_grad and min_grad

// If each output has contiguous elements. The extremum is found before dx is written, because dx
// may alias x.
template <typename T>
void extremumGradRows(const Division &d, const T *g, const T *x, const T *y, T *dx) {
  using C = Compute<T>;
  parallelFor(d.outerKept->elements(), kGrain / (d.last + 1) + 1, [&](int64_t begin, int64_t end) {
    Division::forEach(*d.outerKept, begin, end, [&](int64_t index, int64_t at) {
      const T *row = x + at;
      int64_t first = 0;
      while (first < d.last && !isExtremum(C(row[first]), C(y[index])))
        ++first;
      std::fill(dx + at, dx + at + d.last, T());
      if (first < d.last)
        dx[at + first] = g[index];
    });
  });
}

// Divides g among all extrema of an output, which are counted first. If the extremum is NaN, so is
// the gradient of every element, as that of PyTorch's amax.
template <typename T>
void sharedExtremumGrad(const Division &d, const T *g, const T *x, const T *y, T *dx) {
  using C = Compute<T>;
  int64_t columns = d.lastReduced ? 1 : d.last, length = d.lastReduced ? d.last : 1;
  auto column = [&](int64_t out, int64_t at) {
    int64_t count = 0;
    auto forEach = [&](auto body) {
      d.forEachReduced([&](int64_t row) {
        for (int64_t i = 0; i < length; ++i)
          body(at + row + i);
      });
    };
    forEach([&](int64_t where) { count += isExtremum(C(x[where]), C(y[out])); });
    const bool isNaN = C(y[out]) != C(y[out]);
    const T share = isNaN ? T(std::numeric_limits<C>::quiet_NaN()) : T(C(g[out]) / C(count));
    const T rest = isNaN ? share : T();
    forEach([&](int64_t where) { dx[where] = isExtremum(C(x[where]), C(y[out])) ? share : rest; });
  };
  parallelFor(d.outerKept->elements() * columns, kGrain / (2 * d.perOutput() + 1) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task)
                  Division::forEach(*d.outerKept, task / columns, task / columns + 1,
                                    [&](int64_t index, int64_t at) {
                                      column(index * columns + task % columns, at + task % columns);
                                    });
              });
}

// g at the first of the extrema, zeros elsewhere. dx may alias x: an element is read before it is
// written.
void runExtremumGrad(const OpCall &call, const KernelArgs &args) {
  Division d(call.operands[1], call.attrs->getInts("axes"));
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1), *y = operand<T>(args, 2);
    T *dx = result<T>(args, 0);
    if (call.attrs->getBool("share_ties"))
      return sharedExtremumGrad(d, g, x, y, dx);
    if (d.lastReduced && d.outerReduced->elements() == 1)
      return extremumGradRows(d, g, x, y, dx);
    // Kept columns are processed in blocks, as in reduceColumns; if the last axis is reduced, a
    // block is one output.
    int64_t columns = d.lastReduced ? 1 : d.last, length = d.lastReduced ? d.last : 1;
    int64_t blocks = (columns + kBlock - 1) / kBlock;
    int64_t grain = kGrain / (d.perOutput() * std::min(columns, kBlock) + 1) + 1;
    parallelFor(d.outerKept->elements() * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        int64_t column = task % blocks * kBlock, width = std::min(kBlock, columns - column);
        Division::forEach(
            *d.outerKept, task / blocks, task / blocks + 1, [&](int64_t index, int64_t at) {
              bool found[kBlock] = {};
              d.forEachReduced([&](int64_t row) {
                for (int64_t i = 0; i < length; ++i)
                  for (int64_t j = 0; j < width; ++j) {
                    int64_t where = at + row + i + column + j, out = index * columns + column + j;
                    bool here = !found[j] && isExtremum(C(x[where]), C(y[out]));
                    found[j] |= here;
                    dx[where] = here ? g[out] : T();
                  }
              });
            });
      }
    });
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainReduce(KernelTable &table) {
  using namespace plain;
  table.add({"sum", "plain", prepareThreaded<runReduction<Sum>>});
  table.add({"mean", "plain", prepareThreaded<runReduction<Mean>>});
  table.add({"max", "plain", prepareThreaded<runReduction<Max>>});
  table.add({"min", "plain", prepareThreaded<runReduction<Min>>});
  table.add({"prod", "plain", prepareThreaded<runReduction<Prod>>});
  table.add({"min_grad", "plain", prepareThreaded<runExtremumGrad>});
  table.add({"max_grad", "plain", prepareThreaded<runExtremumGrad>});
}

} // namespace isthmus
