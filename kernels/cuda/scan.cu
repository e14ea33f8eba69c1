// Running sums and products, recurrences, and positions of extrema.

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/register.h"
#include "kernels/element/columns.h"
#include "kernels/element/order.h"
#include "kernels/element/recurrence.h"

namespace isthmus::cuda {
namespace {

// --- cumsum and cumprod. If there are few columns, each is split into pieces, and there are three
// launches: the total of each piece, the total before each piece, and the scan of each piece from
// there.

template <typename S> struct Running {
  bool product;
  ISTHMUS_GPU S start() const { return product ? S(1) : S(0); }
  ISTHMUS_GPU S operator()(S a, S b) const { return product ? Mul()(a, b) : Add()(a, b); }
};

struct ScanPieces {
  Columns columns;
  Run run;
  int64_t count, length; // pieces per column, and elements per piece
  Divisor byColumns;

  explicit ScanPieces(const OpCall &call)
      : columns(call, call.operands[0]), run(call, columns), byColumns(columns.count()) {
    constexpr int64_t kManyColumns = 1 << 14, kLeast = 32;
    length = std::max<int64_t>(columns.length, 1);
    if (columns.count() < kManyColumns) // about as many pieces as elements per piece
      length = std::max(kLeast, int64_t(std::sqrt(double(length))));
    count = (columns.length + length - 1) / length;
  }
  // Calls body(index in the tensor) for the elements of a piece, in scan order.
  template <typename Body>
  ISTHMUS_GPU void forEach(int64_t piece, int64_t column, Body body) const {
    int64_t first = piece * length, end = std::min(first + length, columns.length);
    int64_t at = columns.start(column) + run.offset + first * run.step;
    for (int64_t i = first; i < end; ++i, at += run.step)
      body(at);
  }
};
int64_t scanBytes(const OpCall &call) {
  ScanPieces p(call);
  return p.count <= 1 ? 0 : p.count * p.columns.count() * int64_t(sizeof(int64_t));
}

template <typename T, typename S>
void scan(const Queue &queue, const ScanPieces &p, Running<S> running, bool exclusive, const T *x,
          T *y, S *states) {
  int64_t columns = p.columns.count(), pieces = p.count;
  if (pieces > 1) {
    forEach(queue, pieces * columns, [=] ISTHMUS_GPU(int64_t i) {
      int64_t column, piece = p.byColumns(i, &column);
      S state = running.start();
      p.forEach(piece, column, [&](int64_t at) { state = running(state, S(Compute<T>(x[at]))); });
      states[i] = state;
    });
    forEach(queue, columns, [=] ISTHMUS_GPU(int64_t column) {
      S state = running.start();
      for (int64_t i = column; i < pieces * columns; i += columns) {
        S own = states[i];
        states[i] = state;
        state = running(state, own);
      }
    });
  }
  forEach(queue, pieces * columns, [=] ISTHMUS_GPU(int64_t i) {
    int64_t column, piece = p.byColumns(i, &column);
    S state = pieces > 1 ? states[i] : running.start();
    p.forEach(piece, column, [&](int64_t at) {
      S next = running(state, S(Compute<T>(x[at]))); // read before y, which may alias x
      y[at] = static_cast<T>(static_cast<Compute<T>>(exclusive ? state : next));
      state = next;
    });
  });
}

template <bool product> void runScan(const Launch &l) {
  ScanPieces p(l.call);
  bool exclusive = l.call.attrs->getBool("exclusive");
  dispatchNumber(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = Accumulate<T>; // memory traffic hides the cost of doubles
    scan(l.queue, p, Running<S>{product}, exclusive, l.operand<T>(0), l.result<T>(0),
         l.workspace<S>());
  });
}

// --- recurrence: one thread for each column

template <typename T> void recurrence(const Launch &l) {
  Columns columns(l.call, l.call.operands[0]);
  Run run(l.call, columns);
  bool previous = l.call.attrs->getBool("previous");
  const bool *cut = l.call.operands.size() > 2 ? l.operand<bool>(2) : nullptr;
  Recurrence<T> recurrence{l.operand<T>(0), l.operand<T>(1), cut, l.result<T>(0), previous};
  forEach(l.queue, columns.count(), [=] ISTHMUS_GPU(int64_t column) {
    recurrence.column(columns.start(column) + run.offset, columns.length, run.step);
  });
}
void runRecurrence(const Launch &l) {
  dispatchFloat(l.call.results[0].dtype,
                [&](auto tag) { recurrence<typename decltype(tag)::type>(l); });
}

// --- argmax and argmin

template <typename T> struct ArgOp {
  static constexpr bool kWrites = false;
  struct State {
    Compute<T> value;
    int64_t place; // -1: none
  };
  const T *x;
  int64_t *y;
  bool largest, last;

  ISTHMUS_GPU State start() const { return {Compute<T>(0), -1}; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    auto better = [&](State a, State b) { return fold(a, b); };
    return elements.reduce(
        start(),
        [&](int64_t at, int64_t index) {
          return State{Compute<T>(x[at]), index};
        },
        better, better);
  }
  ISTHMUS_GPU State fold(State a, State b) const {
    if (a.place < 0 || b.place < 0)
      return a.place < 0 ? b : a;
    if (outranks(a.value, b.value, largest) || outranks(b.value, a.value, largest))
      return outranks(a.value, b.value, largest) ? a : b;
    bool behind = last && a.value == a.value; // of several NaN the first counts
    return (a.place > b.place) == behind ? a : b;
  }
  ISTHMUS_GPU void finish(int64_t out, State s) const { y[out] = s.place; }
};

Division argDivision(const OpCall &call) {
  return divisionBy(call.attrs->getInt("axis"), call.operands[0], Passes::One);
}
int64_t argBytes(const OpCall &call) {
  return argDivision(call).workspaceBytes(sizeof(ArgOp<double>::State));
}
template <bool largest> void runArg(const Launch &l) {
  dispatchNumber(l.call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduceBy(
        l.queue, argDivision(l.call),
        ArgOp<T>{l.operand<T>(0), l.result<int64_t>(0), largest, l.call.attrs->getBool("last")},
        l.args.workspace);
  });
}

} // namespace

void registerScan(KernelTable &table) {
  table.add({"cumsum", "cuda", prepareGrid<runScan<false>, scanBytes>});
  table.add({"cumprod", "cuda", prepareGrid<runScan<true>, scanBytes>});
  table.add({"recurrence", "cuda", prepareGrid<runRecurrence>});
  table.add({"argmax", "cuda", prepareGrid<runArg<true>, argBytes>});
  table.add({"argmin", "cuda", prepareGrid<runArg<false>, argBytes>});
}

} // namespace isthmus::cuda
