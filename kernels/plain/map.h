// The loops of elementwise kernels: a function object applied to every element, or pair of
// elements.
//
// A result may alias an operand of the same size: no iteration reads what another one writes, which
// is the promise of `ivdep`. Loops are compiled for float, double and the integers. 16-bit floats
// are converted to floats in chunks, so that a function is not compiled again for each of those
// types.
#pragma once

#include "kernels/plain/dispatch.h"

namespace isthmus::plain {

template <typename T> constexpr bool kIsHalf = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
constexpr int64_t kChunk = 512; // elements in a chunk

template <typename T> void toFloats(const T *from, float *to, int64_t n) {
  vectorised([=] {
    for (int64_t i = 0; i < n; ++i)
      to[i] = float(from[i]);
  });
}
template <typename T> void fromFloats(const float *from, T *to, int64_t n) {
  vectorised([=] {
    for (int64_t i = 0; i < n; ++i)
      to[i] = T(from[i]);
  });
}

template <typename T, typename Out, typename F> void mapRow(const T *x, Out *y, int64_t n, F f) {
  vectorisedFor<T>([=] {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<Out>(f(x[i]));
  });
}

// y = f(x); both have element type T.
template <typename T, typename F> void mapOne(const OpCall &call, const KernelArgs &args, F f) {
  const T *x = operand<T>(args, 0);
  T *y = result<T>(args, 0);
  parallelFor(call.results[0].elements(), kGrain, [=](int64_t begin, int64_t end) {
    if constexpr (kIsHalf<T>) {
      float piece[kChunk];
      for (int64_t i = begin; i < end; i += kChunk) {
        int64_t n = std::min(kChunk, end - i);
        toFloats(x + i, piece, n);
        mapRow(piece, piece, n, f);
        fromFloats(piece, y + i, n);
      }
    } else {
      mapRow(x + begin, y + begin, end - begin, f);
    }
  });
}

// A row of a binary op. An operand that does not step has one element for the whole row.
template <typename T, typename Out, typename F>
void pairRow(const T *a, bool stepA, const T *b, bool stepB, Out *y, int64_t n, F f) {
  // One loop for all cases, because integer tensors are small.
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<Out>(f(a[stepA ? i : 0], b[stepB ? i : 0]));
  } else if (stepA && stepB) {
    vectorised([=] {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i)
        y[i] = static_cast<Out>(f(a[i], b[i]));
    });
  } else if (stepA) {
    mapRow(a, y, n, [f, second = *b](T first) { return f(first, second); });
  } else {
    mapRow(b, y, stepB ? n : 1, [f, first = *a](T second) { return f(first, second); });
    std::fill(y + (stepB ? n : 1), y + n, *y);
  }
}

template <typename T, typename Out, typename F>
void pairRowOfHalves(const T *a, bool stepA, const T *b, bool stepB, Out *y, int64_t n, F f) {
  float pieceA[kChunk], pieceB[kChunk], pieceY[kChunk];
  for (int64_t i = 0; i < n; i += kChunk) {
    int64_t m = std::min(kChunk, n - i);
    toFloats(a + (stepA ? i : 0), pieceA, stepA ? m : 1);
    toFloats(b + (stepB ? i : 0), pieceB, stepB ? m : 1);
    if constexpr (kIsHalf<Out>) {
      pairRow(pieceA, stepA, pieceB, stepB, pieceY, m, f);
      fromFloats(pieceY, y + i, m);
    } else {
      pairRow(pieceA, stepA, pieceB, stepB, y + i, m, f);
    }
  }
}

// y = f(a, b) with numpy's broadcasting; a and b are of type T.
template <typename T, typename Out, typename F>
void mapTwo(const OpCall &call, const KernelArgs &args, F f) {
  const T *a = operand<T>(args, 0), *b = operand<T>(args, 1);
  Out *y = result<Out>(args, 0);
  const Dims &dims = call.results[0].dims;
  Walk<3> walk(dims, {broadcastStrides(call.operands[0].dims, dims),
                      broadcastStrides(call.operands[1].dims, dims), denseStrides(dims)});
  bool stepA = walk.rowStride(0) != 0, stepB = walk.rowStride(1) != 0;
  parallelFor(walk.elements(), kGrain, [&](int64_t begin, int64_t end) {
    walk.forEachRow(begin, end, [&](const std::array<int64_t, 3> &at, int64_t n) {
      if constexpr (kIsHalf<T>)
        pairRowOfHalves(a + at[0], stepA, b + at[1], stepB, y + at[2], n, f);
      else
        pairRow(a + at[0], stepA, b + at[1], stepB, y + at[2], n, f);
    });
  });
}

} // namespace isthmus::plain
