// Gathers and scatters, and choice by order: parts of the shape family that are files of their own.
#pragma once

#include "ir/builder.h"
#include "ir/ops/families.h"
#include "ir/value_facts.h"

namespace isthmus {

void registerIndexingOps(OpRegistry &r); // gather_elements, gather_nd, scatter_elements, scatter_nd
void registerOrderOps(OpRegistry &r);    // top_k

// Of a gather, whose indices are operand 1: each place is named once, so that no element is lost.
inline bool indicesArePermutation(const ValueFacts &facts, const Node &n, size_t) {
  return facts.isPermutation(n.operands[1]);
}

// scatter_product.cc: numbers that tell where each update goes, equal for equal places. Of elements
// they have the dims of the indices; of slices they are [batches, tuples].
ValueId placesOfElements(Builder &b, const Type &data, ValueId indices, int64_t axis);
ValueId placesOfSlices(Builder &b, const Type &data, ValueId indices, int64_t batch);
// For each update the product of the data at its place and of all other updates there. `data`, as
// it is at the place of each update, and `updates` have the dims of `places`, and of slices one
// axis more.
ValueId productsOfOthers(Builder &b, ValueId places, int64_t axis, ValueId data, ValueId updates);

} // namespace isthmus
