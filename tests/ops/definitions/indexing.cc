// Gathers and scatters, orders, and interpolation: where indices say.

#include "tests/ops/definitions/definitions.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <optional>

namespace isthmus::definitions {
namespace {

// The place that an index names on an axis; none if it is out of range.
std::optional<int64_t> placeOf(Number index, int64_t size) {
  const int64_t i = int64_t(index) + (index < 0 ? size : 0);
  return i >= 0 && i < size ? std::optional(i) : std::nullopt;
}
Number outOfRange(DType t) { return isFloat(t) ? kNaN : 0; }

// `at` with the axes from `axis` on replaced: `count` of them by one.
Index replaced(Sizes at, int64_t axis, int64_t count, int64_t by) {
  return joined(joined(at.take_front(axis), {by}), at.drop_front(axis + count));
}

void gather(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank()), rank = x[1].type.rank();
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const auto place = placeOf(x[1][Sizes(at).slice(axis, rank)], x[0].size(axis));
    y[0][at] = place ? x[0][replaced(at, axis, rank, *place)] : outOfRange(y[0].type.dtype);
  });
}
void scatterRows(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, y[0].type.rank()), rank = x[0].type.rank();
  if (x.size() > 2)
    y[0].values = x[2].values;
  forEachIndex(x[1].type.dims, [&](const Index &at) {
    if (const auto place = placeOf(x[0][Sizes(at).slice(axis, rank)], y[0].size(axis))) {
      Number &to = y[0][replaced(at, axis, rank, *place)];
      to = plus(y[0].type.dtype, to, x[1][at]);
    }
  });
}

// The place in `data` that the position `at` of gather_elements' result or scatter_elements'
// updates stands for.
std::optional<Index> elementPlace(const OpCall &call, const Type &data, const Numbers &indices,
                                  const Index &at) {
  const int64_t axis = axisOf(call, data.rank());
  const auto place = placeOf(indices[at], data.dims[size_t(axis)]);
  return place ? std::optional(with(at, axis, *place)) : std::nullopt;
}
// The same for gather_nd and scatter_nd.
std::optional<Index> tuplePlace(const OpCall &call, const Type &data, const Numbers &indices,
                                const Index &at) {
  const int64_t batch = call.attrs->getInt("batch_dims"), tuples = indices.type.rank() - 1;
  Index out(at.begin(), at.begin() + batch);
  for (int64_t i = 0; i < indices.size(tuples); ++i) {
    const auto place =
        placeOf(indices[joined(Sizes(at).take_front(tuples), {i})], data.dims[size_t(batch + i)]);
    if (!place)
      return std::nullopt;
    out.push_back(*place);
  }
  return joined(out, Sizes(at).drop_front(tuples));
}

template <auto placeIn> void gatherAt(const OpCall &call, Operands x, Results y) {
  std::map<std::vector<int64_t>, Index> last; // for each place, the last that reads it
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const auto from = placeIn(call, x[0].type, x[1], at);
    y[0][at] = from ? x[0][*from] : outOfRange(y[0].type.dtype);
    if (!from || !call.attrs->getBool("last_only"))
      return;
    const auto [it, isFirst] = last.emplace(std::vector(from->begin(), from->end()), at);
    if (!isFirst)
      y[0][it->second] = 0;
    it->second = at;
  });
}
template <auto placeIn> void scatterAt(const OpCall &call, Operands x, Results y) {
  const std::string &reduction = call.attrs->getString("reduction");
  const DType t = y[0].type.dtype;
  y[0].values = x[0].values;
  forEachIndex(x[2].type.dims, [&](const Index &at) {
    const auto place = placeIn(call, x[0].type, x[1], at);
    if (!place)
      return;
    Number &to = y[0][*place], update = x[2][at];
    to = reduction == "add"   ? plus(t, to, update)
         : reduction == "mul" ? times(t, to, update)
         : reduction == "max" ? std::max(to, update)
         : reduction == "min" ? std::min(to, update)
                              : update;
  });
}

void topK(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank());
  const bool largest = call.attrs->getBool("largest");
  forEachLine(x[0], axis, [&](const Index &first) {
    const std::vector<Number> v = line(x[0], first, axis);
    std::vector<int64_t> order(v.size());
    std::iota(order.begin(), order.end(), 0);
    auto isLess = [](Number a, Number b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
    llvm::stable_sort(order, [&](int64_t a, int64_t b) {
      return largest ? isLess(v[size_t(b)], v[size_t(a)]) : isLess(v[size_t(a)], v[size_t(b)]);
    });
    for (int64_t i = 0; i < y[0].size(axis); ++i) {
      y[0][with(first, axis, i)] = v[size_t(order[size_t(i)])];
      y[1][with(first, axis, i)] = order[size_t(i)];
    }
  });
}

// Calls f(position in x, in the weights, in the result) for each term of interpolate.
template <typename F>
void forEachSample(const Numbers &places, int64_t size, const Type &result, F f) {
  forEachIndex(result.dims, [&](const Index &at) {
    for (int64_t k = 0; k < places.size(2); ++k) {
      const Index w = {places.size(0) == 1 ? 0 : at[0], at[2], k};
      if (places[w] >= 0 && places[w] < size)
        f(with(at, 2, int64_t(places[w])), w, at);
    }
  });
}
void interpolate(const OpCall &, Operands x, Results y) {
  forEachSample(x[1], x[0].size(2), y[0].type,
                [&](const Index &from, const Index &w, const Index &at) {
                  y[0][at] += x[2][w] * x[0][from];
                });
}
void interpolateTranspose(const OpCall &, Operands x, Results y) {
  forEachSample(
      x[1], y[0].size(2), x[0].type,
      [&](const Index &to, const Index &w, const Index &at) { y[0][to] += x[2][w] * x[0][at]; });
}
void interpolateWeights(const OpCall &, Operands x, Results y) {
  forEachSample(x[2], x[1].size(2), x[0].type,
                [&](const Index &from, const Index &w, const Index &at) {
                  y[0][w] += x[0][at] * x[1][from];
                });
}

} // namespace

void defineIndexing(Table &t) {
  t["gather"] = {gather, Accuracy::Moves};
  t["scatter_rows"] = {scatterRows, Accuracy::AddsUp};
  t["gather_elements"] = {gatherAt<elementPlace>, Accuracy::Moves};
  t["gather_nd"] = {gatherAt<tuplePlace>, Accuracy::Moves};
  t["scatter_elements"] = {scatterAt<elementPlace>, Accuracy::AddsUp};
  t["scatter_nd"] = {scatterAt<tuplePlace>, Accuracy::AddsUp};
  t["top_k"] = {topK, Accuracy::Moves};
  t["interpolate"] = {interpolate};
  t["interpolate_transpose"] = {interpolateTranspose};
  t["interpolate_weights"] = {interpolateWeights};
}

} // namespace isthmus::definitions
