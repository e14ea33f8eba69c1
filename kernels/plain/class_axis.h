// Loops over an axis of classes, shared by softmax and the losses. If the classes are the last
// axis, one row is processed at a time; otherwise a group of neighbouring columns.
#pragma once

#include "ir/rank.h"
#include "kernels/element/functions.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/sums.h"

namespace isthmus::plain {

// x as [outer, classes, inner].
struct ClassShape {
  int64_t outer = 1, classes = 1, inner = 1;

  ClassShape(const Type &x, int64_t axis) {
    axis = axisFromFront(axis, x.rank());
    for (int64_t a = 0; a < x.rank(); ++a)
      (a < axis ? outer : a == axis ? classes : inner) *= x.dims[a];
  }
  static constexpr int64_t kPiece = 32;

  // Calls f(first, count) for groups of `count` neighbouring columns; `first` is the index in x of
  // the first column's first class. If `inner` is 1, every group has one column.
  template <typename F> void forEachPiece(F f) const {
    int64_t perRow = (inner + kPiece - 1) / kPiece, each = classes * std::min(inner, kPiece);
    parallelFor(outer * perRow, std::max<int64_t>(1, kGrain / 8 / std::max<int64_t>(1, each)),
                [&](int64_t begin, int64_t end) {
                  vectorised([&] {
                    for (int64_t p = begin; p < end; ++p) {
                      int64_t column = p % perRow * kPiece;
                      f(p / perRow * classes * inner + column, std::min(kPiece, inner - column));
                    }
                  });
                });
  }
  // The index of a column among all columns, which is the index of its label.
  int64_t label(int64_t first) const { return first / (classes * inner) * inner + first % inner; }
};

// sums[i] = sum over classes of term(index, i) for `count` columns. A single column is summed in
// lanes.
template <typename Term>
void sumColumns(const ClassShape &s, int64_t first, int64_t count, double *sums, Term term) {
  if (s.inner == 1) {
    LaneSum sum;
    sum.addRow(s.classes, [&](int64_t k) { return term(first + k, 0); });
    sums[0] = sum.total();
    return;
  }
  std::fill(sums, sums + count, 0.0);
  for (int64_t k = 0; k < s.classes; ++k)
    for (int64_t i = 0; i < count; ++i)
      sums[i] += term(first + k * s.inner + i, i);
}

// Calls f(index, column) for all elements of the columns. `f` may overwrite the element that it
// reads: no iteration reads what another one writes, which is the promise of `ivdep`.
template <typename F> void forEachElement(const ClassShape &s, int64_t first, int64_t count, F f) {
  if (s.inner == 1) {
#pragma GCC ivdep
    for (int64_t k = 0; k < s.classes; ++k)
      f(first + k, 0);
    return;
  }
  for (int64_t k = 0; k < s.classes; ++k)
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i)
      f(first + k * s.inner + i, i);
}

// The maximum of each column. If a column has a NaN, its maximum is unspecified, because the sum of
// exponentials is NaN anyway.
template <typename T>
void maxColumns(const ClassShape &s, int64_t first, int64_t count, const T *x, Compute<T> *most) {
  std::fill(most, most + count, -std::numeric_limits<Compute<T>>::infinity());
  if (s.inner == 1) {
    constexpr int64_t kLanes = 16;
    Compute<T> lanes[kLanes];
    std::fill(lanes, lanes + kLanes, most[0]);
    const T *row = x + first;
    int64_t whole = s.classes / kLanes * kLanes;
    for (int64_t k = 0; k < whole; k += kLanes)
      for (int64_t l = 0; l < kLanes; ++l)
        lanes[l] = lanes[l] > Compute<T>(row[k + l]) ? lanes[l] : Compute<T>(row[k + l]);
    for (int64_t k = whole; k < s.classes; ++k)
      lanes[0] = std::max<Compute<T>>(lanes[0], row[k]);
    most[0] = *std::max_element(lanes, lanes + kLanes);
  } else {
    for (int64_t k = 0; k < s.classes; ++k)
      for (int64_t i = 0; i < count; ++i)
        most[i] = std::max<Compute<T>>(most[i], x[first + k * s.inner + i]);
  }
  // The sum of a column of -inf is zero, not NaN. An element inf makes all of its column NaN.
  for (int64_t i = 0; i < count; ++i)
    if (most[i] == -std::numeric_limits<Compute<T>>::infinity())
      most[i] = 0;
}

// The logarithm of the sum of exponentials of each column.
template <typename T>
void logSums(const ClassShape &s, int64_t first, int64_t count, const T *x, double *lse) {
  using C = Compute<T>;
  C most[ClassShape::kPiece];
  maxColumns(s, first, count, x, most);
  sumColumns(s, first, count, lse,
             [&](int64_t at, int64_t i) { return double(expOf(C(x[at]) - most[i])); });
  for (int64_t i = 0; i < count; ++i)
    lse[i] = std::log(lse[i]) + double(most[i]);
}

} // namespace isthmus::plain
