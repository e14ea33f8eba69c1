// Reductions over some of a tensor's axes. Each index of the kept axes is an output, and a worker
// (a team or a thread) processes the elements that are reduced for it. If there are few outputs of
// many elements each, the elements are split into pieces: one launch computes a state per piece,
// and a second folds the states in an order that depends on the shape alone.
//
// A kernel is a struct `Op`, copied to the device, with
//   State                                     small and trivially copyable
//   State start()                             the identity of `fold`
//   State collect(elements, out)              of an output's elements, or of a piece of them
//   State fold(State, State)
//   void finish(out, State)                   called once per output, with its final state
//   void apply(elements, out, State)          then, if Op::kWrites: writes the elements themselves
// `collect` and `apply` are templates on the type of `elements`.
#pragma once

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/strided.h"
#include "kernels/element/arithmetic.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::cuda {

// The accumulator type for sums of elements of type T on a GPU. Floats accumulate in float, because
// each lane adds only a few elements.
template <typename T>
using GpuSum =
    std::conditional_t<kIsFloat<T>, std::conditional_t<std::is_same_v<T, double>, double, float>,
                       int64_t>;

// The elements of an output, or a piece of them, as one lane of a team sees them. Callbacks receive
// an element's offset in the tensor and its row-major index among the elements of the output.
template <typename Team> class Elements {
public:
  ISTHMUS_GPU Elements(const Team &team, const Strided<1> &reduced, int64_t base, int64_t first,
                       int64_t step, int64_t count)
      : team_(team), reduced_(reduced), base_(base), first_(first), step_(step), count_(count) {}

  ISTHMUS_GPU int64_t count() const { return count_; }
  // Folds state = next(state, read(at, index)) over the elements. A lane reads several elements
  // before it uses the first, and so waits for memory only once per batch.
  template <typename State, typename Read, typename Next, typename Fold>
  ISTHMUS_GPU State reduce(State start, Read read, Next next, Fold fold) const {
    return team_.reduce(
        batches(), start,
        [&](State s, int64_t b) {
          decltype(read(b, b)) v[kAtOnce];
          int64_t place[kAtOnce];
          readBatch(b, read, v, place);
          for (int u = 0; u < kAtOnce; ++u)
            if (b + u * batches() < count_)
              s = next(s, v[u]);
          return s;
        },
        fold);
  }
  // y[at] = read(at, index). The elements of a batch are all read before any is written.
  template <typename T, typename Read> ISTHMUS_GPU void write(T *y, Read read) const {
    team_.forEach(batches(), [&](int64_t b) {
      T v[kAtOnce];
      int64_t place[kAtOnce];
      readBatch(b, read, v, place);
      for (int u = 0; u < kAtOnce; ++u)
        if (b + u * batches() < count_)
          y[place[u]] = v[u];
    });
  }

private:
  // Elements of a batch. They lie batches() steps apart.
  static constexpr int kAtOnce = 4;
  ISTHMUS_GPU int64_t batches() const { return (count_ + kAtOnce - 1) / kAtOnce; }
  template <typename V, typename Read>
  ISTHMUS_GPU void readBatch(int64_t b, Read read, V (&v)[kAtOnce],
                             int64_t (&place)[kAtOnce]) const {
    for (int u = 0; u < kAtOnce; ++u)
      if (b + u * batches() < count_) {
        int64_t index = first_ + (b + u * batches()) * step_;
        place[u] = at(index);
        v[u] = read(place[u], index);
      }
  }
  ISTHMUS_GPU int64_t at(int64_t index) const {
    int64_t offset[1];
    reduced_.at(index, offset);
    return base_ + offset[0];
  }
  const Team &team_;
  const Strided<1> &reduced_;
  int64_t base_, first_, step_, count_;
};

// How often a kernel reads an output's elements. If more than once, a piece should fit in the
// caches.
enum class Passes { One, More };

// A shape divided into kept and reduced axes, and the number of pieces.
class Division {
public:
  Division(llvm::ArrayRef<int64_t> dims, llvm::function_ref<bool(int64_t axis)> isReduced,
           Passes passes)
      : Division(dims, split(dims, isReduced), passes) {}

  int64_t outputs() const { return outputs_; }
  int64_t length() const { return length_; } // elements per output
  int64_t pieces() const { return pieces_; }
  int64_t workers() const { return outputs_ * pieces_; }
  bool alone() const { return alone_; } // whether workers are threads
  // Bytes for the states of the pieces and of the outputs.
  int64_t workspaceBytes(int64_t stateBytes) const {
    return pieces_ == 1 ? 0 : (workers() + outputs_) * stateBytes;
  }

  // The elements that worker t of `workers()` processes. Neighbouring workers have neighbouring
  // outputs.
  template <typename Team>
  ISTHMUS_GPU Elements<Team> elements(const Team &team, int64_t t, int64_t *out) const {
    int64_t piece = byOutputs_(t, out), base[1];
    kept_.at(*out, base);
    // Pieces interleave, so that neighbouring rows are read at the same time.
    if (alone_)
      return Elements<Team>(team, reduced_, base[0], piece, pieces_,
                            (length_ - piece + pieces_ - 1) / pieces_);
    int64_t first = length_ / pieces_ * piece + std::min(piece, length_ % pieces_);
    return Elements<Team>(team, reduced_, base[0], first, 1,
                          length_ / pieces_ + (piece < length_ % pieces_ ? 1 : 0));
  }
  template <typename Body> void forEachWorker(const Queue &queue, Body body) const {
    cuda::forEachWorker(queue, alone_, workers(), length_ / pieces_, body);
  }

private:
  struct Walks {
    Walk<1> kept, reduced;
    bool lastKept;
    int64_t run; // length of contiguous reduced elements
  };
  static Walks split(llvm::ArrayRef<int64_t> dims, llvm::function_ref<bool(int64_t)> isReduced) {
    Dims strides = denseStrides(dims), kept, keptStrides, reduced, reducedStrides;
    bool lastKept = false, some = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      bool r = isReduced(int64_t(i));
      (r ? reduced : kept).push_back(dims[i]);
      (r ? reducedStrides : keptStrides).push_back(strides[i]);
      if (dims[i] != 1) {
        lastKept = !r;
        some = true;
      }
    }
    Walk<1> inner(reduced, {reducedStrides});
    return {Walk<1>(kept, {keptStrides}), inner, some && lastKept, inner.rowLength()};
  }
  Division(llvm::ArrayRef<int64_t>, const Walks &w, Passes passes)
      : kept_(w.kept), reduced_(w.reduced), outputs_(w.kept.elements()),
        length_(w.reduced.elements()), byOutputs_(outputs_) {
    // Threads, if neighbouring threads read neighbours, or if teams would have too little work.
    alone_ = w.lastKept || length_ < 32 || (w.run < 8 && outputs_ >= 32);
    // Enough workers to fill a large GPU, each with enough work.
    constexpr int64_t kThreads = 1 << 17, kTeams = 2048, kLeastPiece = 4096, kCached = 8192;
    int64_t most;
    if (alone_)
      most = std::min(length_ / 32, kThreads / std::max<int64_t>(outputs_, 1));
    else if (passes == Passes::One)
      most = std::min(length_ / kLeastPiece, kTeams / std::max<int64_t>(outputs_, 1));
    else
      most = length_ > 2 * kCached ? length_ / kCached : 1;
    pieces_ = std::max<int64_t>(most, 1);
  }

  Strided<1> kept_, reduced_;
  int64_t outputs_, length_, pieces_;
  Divisor byOutputs_;
  bool alone_;
};

inline bool isAmong(llvm::ArrayRef<int64_t> axes, int64_t axis, int64_t rank) {
  return llvm::is_contained(axes, axis) || llvm::is_contained(axes, axis - rank);
}
// Reduces over `axes`; over all axes if `axes` is empty.
inline Division divisionBy(const Ints &axes, const Type &x, Passes passes) {
  return Division(
      x.dims, [&](int64_t a) { return axes.empty() || isAmong(axes, a, x.rank()); }, passes);
}
// Reduces over one axis.
inline Division divisionBy(int64_t axis, const Type &x, Passes passes) {
  return Division(
      x.dims, [&](int64_t a) { return isAmong(axis, a, x.rank()); }, passes);
}

enum class Phase { Whole, Collect, Apply, ApplyAlone };

template <typename Op> struct ReduceBody {
  using State = typename Op::State;
  Op op;
  Division division;
  Phase phase;
  State *pieces, *totals;

  template <typename Team> ISTHMUS_GPU void operator()(int64_t t, const Team &team) const {
    int64_t out;
    Elements<Team> elements = division.elements(team, t, &out);
    State s = phase == Phase::Apply        ? totals[out]
              : phase == Phase::ApplyAlone ? op.start()
                                           : op.collect(elements, out);
    if (phase == Phase::Collect && team.isFirst())
      pieces[t] = s;
    if (phase == Phase::Whole && team.isFirst())
      op.finish(out, s);
    if constexpr (Op::kWrites)
      if (phase != Phase::Collect)
        op.apply(elements, out, s);
  }
};

// Runs `op`. `workspace` has division.workspaceBytes(sizeof(State)) bytes.
template <typename Op>
void reduceBy(const Queue &queue, const Division &division, Op op, void *workspace) {
  using State = typename Op::State;
  State *pieces = static_cast<State *>(workspace), *totals = pieces + division.workers();
  bool whole = division.pieces() == 1;
  division.forEachWorker(
      queue, ReduceBody<Op>{op, division, whole ? Phase::Whole : Phase::Collect, pieces, totals});
  if (whole)
    return;
  int64_t outputs = division.outputs(), each = division.pieces();
  forEachTeam(queue, outputs, each, [=] ISTHMUS_GPU(int64_t out, const Team &team) {
    State s = team.reduce(
        each, op.start(), [&](State s, int64_t p) { return op.fold(s, pieces[p * outputs + out]); },
        [&](State a, State b) { return op.fold(a, b); });
    if (team.isFirst()) {
      op.finish(out, s);
      totals[out] = s;
    }
  });
  if constexpr (Op::kWrites)
    division.forEachWorker(queue, ReduceBody<Op>{op, division, Phase::Apply, pieces, totals});
}

// Runs only `apply`, for ops that need no sum: the state is `start()`.
template <typename Op> void applyBy(const Queue &queue, const Division &division, Op op) {
  division.forEachWorker(queue, ReduceBody<Op>{op, division, Phase::ApplyAlone, nullptr, nullptr});
}

} // namespace isthmus::cuda
