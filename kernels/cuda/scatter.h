// Combines updates with the elements at their targets; updates of one target are combined in order.
#pragma once

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/sort.h"

namespace isthmus::cuda {

// How an update is combined with the element at its target.
enum class Combining { Replace, Add, Mul, Maximum, Minimum };
Combining combiningOf(const OpCall &call); // by its attribute

// Update (o, t, j) of [outer, count, length] is combined with element (o, target of t, j) of
// [outer, size, length]. A negative target means that the update is ignored.
struct Scatter {
  int64_t outer, count, size, length;
  DType dtype;
  Combining how;
  // Size of the workspace in bytes; it begins with the targets.
  int64_t bytes() const;
};

// Sorts the updates by their targets, which must already be in the workspace, and combines them
// with `y`: first sums of pieces of the sorted updates, then the pieces of each target.
void scatterUpdates(const Queue &queue, const Scatter &s, const void *updates, void *y,
                    void *workspace);

// Sorts the positions of each column's updates by their targets; updates without a target come
// last. A column has `count` targets and `placesFor(count)` positions.
void sortByTarget(const Queue &queue, int64_t columns, int64_t count, const int64_t *targets,
                  Place *places);

} // namespace isthmus::cuda
