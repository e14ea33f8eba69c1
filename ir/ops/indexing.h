// Gathers and scatters, and top-k: parts of the shape family in files of their own, and what these
// files share.
#pragma once

#include "ir/builder.h"
#include "ir/ops/families.h"
#include "ir/value_facts.h"

namespace isthmus {

void registerIndexingOps(OpRegistry &r); // gather_elements, gather_nd, scatter_elements, scatter_nd
void registerOrderOps(OpRegistry &r);    // top_k

// `x` on [start, limit) of one axis; `x` itself if that is all. In shape.cc.
ValueId sliceAxis(Builder &b, ValueId x, int64_t axis, int64_t start, int64_t limit);

// For a gather, whose indices are operand 1: whether they name each place once, so that no element
// is lost.
inline bool indicesArePermutation(const ValueFacts &facts, const Node &n, size_t) {
  return facts.isPermutation(n.operands[1]);
}

// scatter_product.cc: a number for the place that each update goes to, equal for equal places. For
// elements the result has the dims of the indices; for slices it is [batches, tuples].
ValueId placesOfElements(Builder &b, const Type &data, ValueId indices, int64_t axis);
ValueId placesOfSlices(Builder &b, const Type &data, ValueId indices, int64_t batch);
// For each update, the product of the data at its place and of all other updates of that place.
// `data`, gathered for each update, and `updates` have the dims of `places`, and one more axis for
// slices.
ValueId productsOfOthers(Builder &b, ValueId places, int64_t axis, ValueId data, ValueId updates);

} // namespace isthmus
