// Places sorted by what is at them: Batcher's bitonic network (Sorting Networks and Their
// Applications, AFIPS 1968). Its comparisons follow from the length alone, and every place is of
// its own, so equal elements stay in order and results are the same on each run.
#pragma once

#include "kernels/cuda/shared.h"
#include "kernels/cuda/strided.h"
#include <bit>

namespace isthmus::cuda {

using Place = int32_t;

constexpr int kSpan = 4096; // places that a team sorts without the others

// Places of a column that is sorted: those past the column's length fill it up to a power of two.
inline int64_t placesFor(int64_t length) {
  return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(length, 2))));
}

// What is sorted: `columns` of `length` places. `order.of(column)` tells of two places of a column
// which comes first; no two may be equal.
template <typename Order> struct Sorting {
  Order order;
  int64_t columns, length, places;

  Sorting(Order o, int64_t columns, int64_t length)
      : order(o), columns(columns), length(length), places(placesFor(length)) {}
};

// Comparison `pair` of a pass whose pairs are `step` apart, in runs of `size` places that go up and
// down by turns. `place` begins at the column's place `first`.
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

// The passes that stay within spans: of all sizes up to a span's if `whole`, else of one size.
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

// A pass between spans.
template <typename Order>
void sortAcross(const Queue &queue, const Sorting<Order> &s, int64_t step, int64_t size,
                Place *all) {
  Divisor byPairs(s.places / 2);
  forEach(queue, s.columns * (s.places / 2), [=] ISTHMUS_GPU(int64_t i) {
    int64_t pair, column = byPairs(i, &pair);
    exchange(s.order.of(column), s.length, all + column * s.places, 0, pair, step, size);
  });
}

// The places [0, length) of each column in their order; a column has `placesFor(length)` of them.
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
