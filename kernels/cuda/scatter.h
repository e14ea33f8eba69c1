// Updates that are combined with what is at their targets, those of one target in their order.
#pragma once

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/sort.h"

namespace isthmus::cuda {

// How an update goes with what is there.
enum class Combining { Replace, Add, Mul, Maximum, Minimum };
Combining combiningOf(const OpCall &call); // by its attribute

// Update (o, t, j) of [outer, count, length] goes to element (o, target of t, j) of
// [outer, size, length]; a target below zero is none.
struct Scatter {
  int64_t outer, count, size, length;
  DType dtype;
  Combining how;
  // Of the workspace, which begins with the targets.
  int64_t bytes() const;
};

// Sorts the updates by their targets, which must be there, and combines them with `y`: sums of
// pieces of the sorted updates first, then of the pieces of each target.
void scatterUpdates(const Queue &queue, const Scatter &s, const void *updates, void *y,
                    void *workspace);

// The places of the updates of each column in the order of their targets, those without one last;
// a column has `count` targets and `placesFor(count)` places.
void sortByTarget(const Queue &queue, int64_t columns, int64_t count, const int64_t *targets,
                  Place *places);

} // namespace isthmus::cuda
