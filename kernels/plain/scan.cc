// Running sums and products, positions of extrema, and log-sum-exp.

#include "kernels/element/arithmetic.h"
#include "kernels/element/columns.h"
#include "kernels/element/functions.h"
#include "kernels/element/order.h"
#include "kernels/element/recurrence.h"
#include "kernels/plain/division.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Calls body(start, column) for each column.
template <typename Body> void forEachColumn(const Columns &columns, Body body) {
  parallelFor(columns.count(), kGrain / (columns.length + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      body(columns.start(c), c);
  });
}

template <typename F, int start> void runScan(const OpCall &call, const KernelArgs &args) {
  Columns columns(call, call.operands[0]);
  Run run(call, columns);
  bool exclusive = call.attrs->getBool("exclusive");
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = Accumulate<T>;
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    forEachColumn(columns, [=](int64_t at, int64_t) {
      S state = start;
      at += run.offset;
      for (int64_t i = 0; i < columns.length; ++i, at += run.step) {
        S next = F()(state, S(Compute<T>(x[at]))); // read before y, which may alias x, is written
        y[at] = static_cast<T>(static_cast<Compute<T>>(exclusive ? state : next));
        state = next;
      }
    });
  });
}

void runRecurrence(const OpCall &call, const KernelArgs &args) {
  Columns columns(call, call.operands[0]);
  Run run(call, columns);
  bool previous = call.attrs->getBool("previous");
  const bool *cut = call.operands.size() > 2 ? operand<bool>(args, 2) : nullptr;
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Recurrence<T> recurrence{operand<T>(args, 0), operand<T>(args, 1), cut, result<T>(args, 0),
                             previous};
    forEachColumn(columns, [=](int64_t at, int64_t) {
      recurrence.column(at + run.offset, columns.length, run.step);
    });
  });
}

// --- argmax and argmin

template <bool largest> void runArg(const OpCall &call, const KernelArgs &args) {
  Columns columns(call, call.operands[0]);
  bool last = call.attrs->getBool("last");
  dispatchNumber(call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = operand<T>(args, 0);
    int64_t *y = result<int64_t>(args, 0);
    forEachColumn(columns, [=](int64_t at, int64_t column) {
      using C = Compute<T>;
      C best = C(x[at]);
      int64_t place = 0;
      for (int64_t i = 1; i < columns.length && best == best; ++i) {
        C v = C(x[at + i * columns.step]);
        bool better = outranks(v, best, largest) || (last && v == best);
        best = better ? v : best;
        place = better ? i : place;
      }
      y[column] = place;
    });
  });
}

// --- logsumexp: the maximum is subtracted, so that no exponential overflows. Kept columns are
// processed in blocks.

constexpr int64_t kBlock = 256;

void runLogSumExp(const OpCall &call, const KernelArgs &args) {
  Division d(call.operands[0], call.attrs->getInts("axes"));
  int64_t kept = d.lastReduced ? 1 : d.last, length = d.lastReduced ? d.last : 1;
  int64_t blocks = (kept + kBlock - 1) / kBlock;
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    auto block = [&](int64_t index, int64_t at, int64_t width) {
      C top[kBlock];
      double sum[kBlock] = {};
      std::fill_n(top, width, -std::numeric_limits<C>::infinity());
      d.forEachReduced([&](int64_t row) {
        for (int64_t i = 0; i < length; ++i)
          for (int64_t j = 0; j < width; ++j) {
            C v = C(x[at + row + i + j]);
            top[j] = v > top[j] || v != v ? v : top[j];
          }
      });
      // An infinite maximum is the result: inf - inf would be NaN.
      C base[kBlock];
      for (int64_t j = 0; j < width; ++j)
        base[j] = std::isinf(top[j]) ? C(0) : top[j];
      d.forEachReduced([&](int64_t row) {
        for (int64_t i = 0; i < length; ++i)
          for (int64_t j = 0; j < width; ++j)
            sum[j] += double(expOf(C(x[at + row + i + j]) - base[j]));
      });
      for (int64_t j = 0; j < width; ++j)
        y[index + j] = static_cast<T>(
            std::isinf(top[j]) ? top[j] : static_cast<C>(double(base[j]) + std::log(sum[j])));
    };
    int64_t grain = kGrain / (8 * d.perOutput() * std::min(kept, kBlock) + 1) + 1;
    parallelFor(d.outerKept->elements() * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        int64_t column = task % blocks * kBlock;
        Division::forEach(
            *d.outerKept, task / blocks, task / blocks + 1, [&](int64_t index, int64_t at) {
              block(index * kept + column, at + column, std::min(kBlock, kept - column));
            });
      }
    });
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainScan(KernelTable &table) {
  using namespace plain;
  table.add({"cumsum", "plain", prepareThreaded<runScan<Add, 0>>});
  table.add({"cumprod", "plain", prepareThreaded<runScan<Mul, 1>>});
  table.add({"recurrence", "plain", prepareThreaded<runRecurrence>});
  table.add({"argmax", "plain", prepareThreaded<runArg<true>>});
  table.add({"argmin", "plain", prepareThreaded<runArg<false>>});
  table.add({"logsumexp", "plain", prepareThreaded<runLogSumExp>});
}

} // namespace isthmus
