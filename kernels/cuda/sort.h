// Places sorted by what is at them: Batcher's bitonic network (Sorting Networks and Their
// Applications, AFIPS 1968). Its comparisons follow from the length alone, and every place is of
// its own, so equal elements stay in order and results are the same on each run.
#pragma once

#include "kernels/cuda/shared.h"
#include <bit>

namespace isthmus::cuda {

using Place = int32_t;

constexpr int kSpan = 4096; // places that a team sorts without the others

// Places of a column that is sorted: those past the column's length fill it up to a power of two.
inline int64_t placesFor(int64_t length) {
  return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(length, 2))));
}

template <typename Before> struct Sorting {
  Before before; // before(column, a, b): an order in which no two places are equal
  int64_t length, places;

  ISTHMUS_GPU bool precedes(int64_t column, Place a, Place b) const {
    return a < length && b < length ? before(column, a, b) : a < b;
  }
  // Comparison `pair` of a pass whose pairs are `step` apart, in runs of `size` places that go up
  // and down by turns. `first` is where `place` begins in its column.
  ISTHMUS_GPU void exchange(int64_t column, Place *place, int64_t first, int64_t pair, int64_t step,
                            int64_t size) const {
    int64_t low = pair & (step - 1), i = (pair - low) * 2 + low;
    Place a = place[i], b = place[i + step];
    bool upwards = ((first + i) & size) == 0;
    if (precedes(column, b, a) == upwards) {
      place[i] = b;
      place[i + step] = a;
    }
  }
};

// The passes that stay within spans: of all sizes up to a span's if `whole`, else of one size.
template <typename Before>
void sortSpans(const Queue &queue, const Sorting<Before> &s, int64_t columns, bool whole,
               int64_t size, Place *all) {
  int64_t span = std::min<int64_t>(s.places, kSpan), perColumn = s.places / span;
  forEachTeam(queue, columns * perColumn, kOwnBlock, [=] ISTHMUS_GPU(int64_t t, const Team &team) {
    Place *place = sharedMemory<Place, kSpan>(), *home = all + t * span;
    int64_t column = t / perColumn, first = t % perColumn * span;
    team.forEach(span, [&](int64_t i) { place[i] = whole ? Place(first + i) : home[i]; });
    for (int64_t now = whole ? 2 : size; now <= (whole ? span : size); now *= 2)
      for (int64_t step = std::min(now, span) / 2; step > 0; step /= 2)
        team.forEach(span / 2,
                     [&](int64_t pair) { s.exchange(column, place, first, pair, step, now); });
    team.forEach(span, [&](int64_t i) { home[i] = place[i]; });
  });
}

// The places [0, length) of each column in their order; a column has `placesFor(length)` of them.
template <typename Before>
void sortPlaces(const Queue &queue, int64_t columns, int64_t length, Place *all, Before before) {
  Sorting<Before> s{before, length, placesFor(length)};
  sortSpans(queue, s, columns, /*whole=*/true, 0, all);
  for (int64_t size = 2 * kSpan; size <= s.places; size *= 2) {
    for (int64_t step = size / 2; step >= kSpan; step /= 2) {
      int64_t pairs = s.places / 2;
      forEach(queue, columns * pairs, [=] ISTHMUS_GPU(int64_t i) {
        int64_t column = i / pairs;
        s.exchange(column, all + column * s.places, 0, i % pairs, step, size);
      });
    }
    sortSpans(queue, s, columns, /*whole=*/false, size, all);
  }
}

} // namespace isthmus::cuda
