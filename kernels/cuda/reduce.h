// Kernels over some of a tensor's axes: what is kept of the others has an index each, an output,
// and the elements reduced for it are gone through by a worker, a team or a thread. Where outputs
// are few and each is of many elements they are cut into pieces: one launch gives a state for each
// piece, a second folds them, in an order that follows from the shape alone.
//
// A kernel is a struct `Op`, copied to the device, with
//   State                                     small and trivially copyable
//   State start()                             what changes nothing when folded
//   State collect(elements, out)              of the elements, or of a piece of them, of an output
//   State fold(State, State)
//   void finish(out, State)                   once for an output, with what its elements came to
//   void apply(elements, out, State)          then, if Op::kWrites: writes the elements themselves
// `collect` and `apply` are templates on the type of `elements`.
#pragma once

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/strided.h"
#include "kernels/element/arithmetic.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::cuda {

// What sums of elements of type T are collected in on a GPU: of few each lane has some, so that
// floats do.
template <typename T>
using GpuSum =
    std::conditional_t<kIsFloat<T>, std::conditional_t<std::is_same_v<T, double>, double, float>,
                       int64_t>;

// The elements of an output, or a piece of them, as one lane of a team sees them: functions are
// called with where an element is in the tensor, and with its index among those of the output, in
// row-major order.
template <typename Team> class Elements {
public:
  ISTHMUS_GPU Elements(const Team &team, const Strided<1> &reduced, int64_t base, int64_t first,
                       int64_t step, int64_t count)
      : team_(team), reduced_(reduced), base_(base), first_(first), step_(step), count_(count) {}

  ISTHMUS_GPU int64_t count() const { return count_; }
  // state = next(state, read(at, index)). A lane reads several elements before it uses the first,
  // and so waits for memory once.
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
  // y[at] = read(at, index), after the elements at once with it are read.
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
  static constexpr int kAtOnce = 4; // elements of a batch: as many batches lie between two
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

// How often a kernel goes through an output's elements: where more than once, a piece should stay
// in the caches.
enum class Passes { One, More };

// A shape divided into what is kept and what is reduced, and the pieces.
class Division {
public:
  Division(llvm::ArrayRef<int64_t> dims, llvm::function_ref<bool(int64_t axis)> isReduced,
           Passes passes)
      : Division(dims, split(dims, isReduced), passes) {}

  int64_t outputs() const { return outputs_; }
  int64_t length() const { return length_; } // of each
  int64_t pieces() const { return pieces_; }
  int64_t workers() const { return outputs_ * pieces_; }
  bool alone() const { return alone_; } // whether workers are threads
  // Bytes for the states of pieces, and for those of outputs.
  int64_t workspaceBytes(int64_t stateBytes) const {
    return pieces_ == 1 ? 0 : (workers() + outputs_) * stateBytes;
  }

  // What worker t of `workers()` goes through. Neighbouring workers have neighbouring outputs.
  template <typename Team>
  ISTHMUS_GPU Elements<Team> elements(const Team &team, int64_t t, int64_t *out) const {
    int64_t piece = byOutputs_(t, out), base[1];
    kept_.at(*out, base);
    if (alone_) // turn by turn: neighbouring rows are read at a time
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
    int64_t run; // neighbours that are reduced
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
    // Threads where neighbouring ones read neighbours, or where teams would have little to do.
    alone_ = w.lastKept || length_ < 32 || (w.run < 8 && outputs_ >= 32);
    // Enough workers to fill a large GPU; each with enough to do.
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
// Of a reduction's axes: all if there are none.
inline Division divisionBy(const Ints &axes, const Type &x, Passes passes) {
  return Division(
      x.dims, [&](int64_t a) { return axes.empty() || isAmong(axes, a, x.rank()); }, passes);
}
// Of one axis.
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

// Runs `op`; `workspace` has the bytes that the division wants for its states.
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

// Only `apply`, of what no sum is needed for: the state is `start()`.
template <typename Op> void applyBy(const Queue &queue, const Division &division, Op op) {
  division.forEachWorker(queue, ReduceBody<Op>{op, division, Phase::ApplyAlone, nullptr, nullptr});
}

} // namespace isthmus::cuda
