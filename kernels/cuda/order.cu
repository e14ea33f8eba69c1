// top_k. A small k is selected one element at a time, each the first of those that come after the
// preceding one; for a larger k a column's positions are sorted.

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/register.h"
#include "kernels/cuda/sort.h"
#include "kernels/element/columns.h"
#include "kernels/element/order.h"

namespace isthmus::cuda {
namespace {

struct TopK {
  Columns columns;
  int64_t k;
  bool largest;
  explicit TopK(const OpCall &call)
      : columns(call, call.operands[0]), k(call.attrs->getInt("k")),
        largest(call.attrs->getBool("largest")) {}

  // Sorting makes about log^2(length) / 2 passes over a column, but in many launches.
  bool sorts() const {
    constexpr int64_t kFew = 64;
    return k > kFew && columns.length <= std::numeric_limits<Place>::max() / 2;
  }
  // The index of result j of a column.
  ISTHMUS_GPU int64_t at(int64_t column, int64_t j) const {
    return (column / columns.step * k + j) * columns.step + column % columns.step;
  }
};

int64_t topKBytes(const OpCall &call) {
  TopK t(call);
  return t.sorts() ? t.columns.count() * placesFor(t.columns.length) * int64_t(sizeof(Place)) : 0;
}

template <typename T> struct Candidate {
  Compute<T> value;
  int64_t place; // -1: none
  ISTHMUS_GPU bool precedes(const Candidate &other, bool largest) const {
    return place >= 0 &&
           (other.place < 0 || element::precedes(value, place, other.value, other.place, largest));
  }
};

template <typename T>
void select(const Queue &queue, const TopK &t, const T *x, T *values, int64_t *indices) {
  using C = Candidate<T>;
  const Columns &columns = t.columns;
  forEachTeam(queue, columns.count(), columns.length,
              [=] ISTHMUS_GPU(int64_t column, const Team &team) {
                const T *from = x + columns.start(column);
                C chosen{Compute<T>(0), -1};
                for (int64_t j = 0; j < t.k; ++j) {
                  C before = chosen;
                  chosen = team.reduce(
                      columns.length, C{Compute<T>(0), -1},
                      [&](C best, int64_t i) {
                        C next{Compute<T>(from[i * columns.step]), i};
                        bool left = before.place < 0 || before.precedes(next, t.largest);
                        return left && next.precedes(best, t.largest) ? next : best;
                      },
                      [&](C a, C b) { return b.precedes(a, t.largest) ? b : a; });
                  team.forEach(1, [&](int64_t) {
                    values[t.at(column, j)] = from[chosen.place * columns.step];
                    indices[t.at(column, j)] = chosen.place;
                  });
                }
              });
}

template <typename T> struct ByValue {
  const T *x;
  Columns columns;
  bool largest;
  ISTHMUS_GPU ByValue of(int64_t column) const {
    return {x + columns.start(column), columns, largest};
  }
  ISTHMUS_GPU bool operator()(Place a, Place b) const {
    return precedes(Compute<T>(x[a * columns.step]), a, Compute<T>(x[b * columns.step]), b,
                    largest);
  }
};

template <typename T>
void sort(const Queue &queue, const TopK &t, const T *x, T *values, int64_t *indices,
          Place *places) {
  const Columns &columns = t.columns;
  sortPlaces(queue, columns.count(), columns.length, places, ByValue<T>{x, columns, t.largest});
  int64_t stored = placesFor(columns.length);
  forEach(queue, columns.count() * t.k, [=] ISTHMUS_GPU(int64_t i) {
    int64_t column = i / t.k, j = i % t.k, place = places[column * stored + j];
    values[t.at(column, j)] = x[columns.start(column) + place * columns.step];
    indices[t.at(column, j)] = place;
  });
}

void runTopK(const Launch &l) {
  TopK t(l.call);
  dispatchNumber(l.call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (t.sorts())
      sort(l.queue, t, l.operand<T>(0), l.result<T>(0), l.result<int64_t>(1), l.workspace<Place>());
    else
      select(l.queue, t, l.operand<T>(0), l.result<T>(0), l.result<int64_t>(1));
  });
}

} // namespace

void registerOrder(KernelTable &table) {
  table.add({"top_k", "cuda", prepareGrid<runTopK, topKBytes>});
}

} // namespace isthmus::cuda
