// Replaces slices that partition a value by one split. Changes rounding, of the signs of zeros.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Where slices of one value along one axis take each element once, one split makes all of them,
// under their names, at the place of the first slice. Exporters write a chunk as slices, and
// authors the halves of a coupling. The gradient of a slice is as large as the whole value, and no
// inverse leads from one slice to the whole value; the results of a split are simply concatenated.
// Every value keeps its bits; a gradient that is zero may lose its sign. Some slices stay: those
// with marks, those of a graph input, which is always live, and groups of more than four, because
// the steps of a sequence are better sliced one by one, each where it is used.
Graph withJoinedSlices(const Graph &g);

} // namespace isthmus
