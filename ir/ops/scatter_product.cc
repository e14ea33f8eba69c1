// The gradient of a multiplying scatter needs, for each update, the product of all other factors at
// its place.
//
// The updates are sorted by place, so that those of one place are adjacent. Two recurrences, cut at
// the borders between places, give the product of the updates before each update and the product of
// those after it. They divide by nothing, so the result, and its derivatives of every order, are
// right where factors are zero. No place reads factors of another, so a NaN stays in its place.

#include "ir/ops/indexing.h"

namespace isthmus {
namespace {

ValueId number(Builder &b, DType type, double v) { return b.full(Type(type, {}), v); }

// The index counted from the front, or -1 if it is out of range.
ValueId fromFront(Builder &b, ValueId index, int64_t size) {
  ValueId i = b.cast(index, DType::I64), zero = number(b, DType::I64, 0),
          end = number(b, DType::I64, double(size));
  ValueId counted = b.create("where", {b.create("less", {i, zero}), b.add(i, end), i});
  ValueId inside = b.create(
      "and", {b.create("less", {counted, end}), b.create("greater_equal", {counted, zero})});
  return b.create("where", {inside, counted, number(b, DType::I64, -1)});
}

// Where each key differs from the next (or previous) one; true at the end without a neighbour.
ValueId differ(Builder &b, ValueId keys, int64_t axis, bool fromNext) {
  const Dims dims = b.type(keys).dims;
  Ints none(dims.size(), 0), one = none, starts = none, limits(dims.begin(), dims.end());
  one[size_t(axis)] = 1;
  (fromNext ? starts : limits)[size_t(axis)] += fromNext ? 1 : -1;
  ValueId rest = b.create("slice", {keys}, {{"starts", starts}, {"limits", limits}});
  ValueId neighbour =
      b.create("pad", {rest},
               {{"low", fromNext ? none : one}, {"high", fromNext ? one : none}, {"value", -2.0}});
  return b.create("not", {b.create("equal", {keys, neighbour})});
}

} // namespace

ValueId placesOfElements(Builder &b, const Type &data, ValueId indices, int64_t axis) {
  return fromFront(b, indices, data.dims[size_t(axis)]);
}

ValueId placesOfSlices(Builder &b, const Type &data, ValueId indices, int64_t batch) {
  const Dims at = b.type(indices).dims;
  int64_t batches = 1, tuples = 1, depth = at.back();
  for (size_t i = 0; i + 1 < at.size(); ++i)
    (int64_t(i) < batch ? batches : tuples) *= at[i];
  ValueId all = b.reshape(indices, {batches, tuples, depth});
  ValueId none = number(b, DType::I64, -1), place = b.zeros(Type(DType::I64, {batches, tuples}));
  for (int64_t i = 0; i < depth; ++i) {
    ValueId one = b.create("slice", {all},
                           {{"starts", Ints{0, 0, i}}, {"limits", Ints{batches, tuples, i + 1}}});
    int64_t size = data.dims[size_t(batch + i)];
    ValueId index = fromFront(b, b.reshape(one, {batches, tuples}), size);
    ValueId next = b.add(b.mul(place, number(b, DType::I64, double(size))), index);
    ValueId outside = b.create("or", {b.create("equal", {index, none}), //
                                      b.create("equal", {place, none})});
    place = b.create("where", {outside, none, next});
  }
  return place;
}

ValueId productsOfOthers(Builder &b, ValueId places, int64_t axis, ValueId data, ValueId updates) {
  const Type type = b.type(updates);
  const Dims dims = b.type(places).dims;
  NodeId sort = b.createNode("top_k", {places},
                             {{"axis", axis}, {"k", dims[size_t(axis)]}, {"largest", false}});
  ValueId sorted = b.graph().node(sort).result(0);
  auto spread = [&](ValueId v) { // along the axes after those of `places`
    Dims wide = dims;
    wide.resize(size_t(type.rank()), 1);
    return b.broadcastTo(b.reshape(v, wide), type.dims);
  };
  ValueId order = spread(b.graph().node(sort).result(1));
  ValueId isFirst = spread(differ(b, sorted, axis, /*fromNext=*/false));
  ValueId isLast = spread(differ(b, sorted, axis, /*fromNext=*/true));
  auto inOrder = [&](ValueId v) {
    return b.create("gather_elements", {v, order}, {{"axis", axis}});
  };
  ValueId factors = inOrder(updates), zero = number(b, type.dtype, 0);
  auto product = [&](ValueId begins, ValueId with, ValueId cut, bool reverse) {
    return b.create("recurrence", {b.create("where", {begins, with, zero}), factors, cut},
                    {{"axis", axis}, {"reverse", reverse}, {"previous", true}});
  };
  ValueId before = product(isFirst, inOrder(data), isLast, /*reverse=*/false);
  ValueId behind = product(isLast, number(b, type.dtype, 1), isFirst, /*reverse=*/true);
  return b.create("scatter_elements", {b.zeros(type), order, b.mul(before, behind)},
                  {{"axis", axis}});
}

} // namespace isthmus
