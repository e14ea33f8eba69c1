// Folds of many elements in an order that depends on their number alone: element i goes to lane
// i % 16, and the lanes are folded by halves.
#pragma once

#include "kernels/plain/dispatch.h"
#include <algorithm>

namespace isthmus::plain {

constexpr int64_t kLanes = 16;

// R has a State, start(), next(state, element) and fold(state, state).
template <typename R> struct Lanes {
  typename R::State lane[kLanes];
  Lanes() { std::fill(lane, lane + kLanes, R::start()); }

  // Adds at(i) for i in [0, n).
  template <typename At> void addRow(int64_t n, At at) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l)
        lane[l] = R::next(lane[l], at(i + l));
    for (int64_t l = 0; l < n - i; ++l)
      lane[l] = R::next(lane[l], at(i + l));
  }
  typename R::State folded() {
    for (int64_t width = kLanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l)
        lane[l] = R::fold(lane[l], lane[l + width]);
    return lane[0];
  }
};

// at(i) for i in [0, n), in pieces that depend on n alone, so that threads can share them. T is the
// type whose vector units help.
template <typename R, typename T, typename At> typename R::State foldAll(int64_t n, At at) {
  constexpr int64_t kPieces = 64, kLeastPiece = 32768;
  const int64_t pieces = std::clamp<int64_t>(n / kLeastPiece, 1, kPieces);
  typename R::State partial[kPieces];
  parallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    vectorisedFor<T>([&] {
      for (int64_t p = begin; p < end; ++p) {
        Lanes<R> lanes;
        const int64_t from = n * p / pieces, to = n * (p + 1) / pieces;
        lanes.addRow(to - from, [&](int64_t i) { return at(from + i); });
        partial[p] = lanes.folded();
      }
    });
  });
  for (int64_t p = 1; p < pieces; ++p)
    partial[0] = R::fold(partial[0], partial[p]);
  return partial[0];
}

// The sum of floats, in double.
struct DoubleSum {
  using State = double;
  static State start() { return 0; }
  static State next(State s, double v) { return s + v; }
  static State fold(State a, State b) { return a + b; }
};

} // namespace isthmus::plain
