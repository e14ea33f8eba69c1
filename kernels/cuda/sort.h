// Sorts positions by their elements with Batcher's bitonic network (Sorting Networks and Their
// Applications, AFIPS 1968). The comparisons depend on the length alone, and positions break ties,
// so equal elements stay in order and every run gives the same result.
#pragma once

#include "kernels/cuda/shared.h"
#include "kernels/cuda/strided.h"
#include <bit>

namespace isthmus::cuda {

using Place = int32_t;

constexpr int kSpan = 4096; // positions that one team sorts on its own

// Positions of a sorted column: its length rounded up to a power of two.
inline int64_t placesFor(int64_t length) {
  return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(length, 2))));
}

// A sort of `columns` columns of `length` positions. `order.of(column)` returns a predicate that
// tells which of two positions of the column comes first; no two may be equal.
template <typename Order> struct Sorting {
  Order order;
  int64_t columns, length, places;

  Sorting(Order o, int64_t columns, int64_t length)
      : order(o), columns(columns), length(length), places(placesFor(length)) {}
};

// Comparison `pair` of a pass that compares elements `step` apart, in runs of `size` positions that
// are alternately ascending and descending. `place` points to the column's position `first`.
template <typename Precedes>
ISTHMUS_GPU void exchange(Precedes precedes, int64_t length, Place *place, int64_t first,
                          int64_t pair, int64_t step, int64_t size) {
  int64_t low = pair & (step - 1), i = (pair - low) * 2 + low;
  Place a = place[i], b = place[i + step];
  bool upwards = ((first + i) & size) == 0;
  bool inside = a < length && b < length;
  if ((inside ? precedes(b, a) : b < a) == upwards) {
    place[i] = b;
    place[i + step] = a;
  }
}

// The passes within spans: all sizes up to the span's if `whole`, else the passes of one size.
template <typename Order>
void sortSpans(const Queue &queue, const Sorting<Order> &s, bool whole, int64_t size, Place *all) {
  int64_t span = std::min<int64_t>(s.places, kSpan);
  Divisor bySpans(s.places / span);
  forEachTeam(queue, s.columns * (s.places / span), kOwnBlock,
              [=] ISTHMUS_GPU(int64_t t, const Team &team) {
                Place *place = sharedMemory<Place, kSpan>(), *home = all + t * span;
                int64_t first, column = bySpans(t, &first);
                first *= span;
                auto precedes = s.order.of(column);
                team.forEach(span,
                             [&](int64_t i) { place[i] = whole ? Place(first + i) : home[i]; });
                for (int64_t now = whole ? 2 : size; now <= (whole ? span : size); now *= 2)
                  for (int64_t step = std::min(now, span) / 2; step > 0; step /= 2)
                    team.forEach(span / 2, [&](int64_t pair) {
                      exchange(precedes, s.length, place, first, pair, step, now);
                    });
                team.forEach(span, [&](int64_t i) { home[i] = place[i]; });
              });
}

// A pass across spans.
template <typename Order>
void sortAcross(const Queue &queue, const Sorting<Order> &s, int64_t step, int64_t size,
                Place *all) {
  Divisor byPairs(s.places / 2);
  forEach(queue, s.columns * (s.places / 2), [=] ISTHMUS_GPU(int64_t i) {
    int64_t pair, column = byPairs(i, &pair);
    exchange(s.order.of(column), s.length, all + column * s.places, 0, pair, step, size);
  });
}

// Sorts the positions [0, length) of each column; a column has `placesFor(length)` of them.
template <typename Order>
void sortPlaces(const Queue &queue, int64_t columns, int64_t length, Place *all, Order order) {
  Sorting<Order> s(order, columns, length);
  sortSpans(queue, s, /*whole=*/true, 0, all);
  for (int64_t size = 2 * kSpan; size <= s.places; size *= 2) {
    for (int64_t step = size / 2; step >= kSpan; step /= 2)
      sortAcross(queue, s, step, size, all);
    sortSpans(queue, s, /*whole=*/false, size, all);
  }
}

} // namespace isthmus::cuda
