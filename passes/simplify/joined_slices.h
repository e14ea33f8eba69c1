// Slices that take a value apart become one split.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Where slices of one value on one axis take each element once, a split gives all of them, under
// their names, where the first of them was. Exporters write a chunk, and authors the halves of a
// coupling, as slices: the gradient of each is as large as the whole, and no inverse leads from a
// part of a value to all of it, whereas parts that are a split's are simply joined. Every value
// keeps its bits; a gradient that is zero may lose its sign. Slices with
// marks stay, and so do those of a graph input, which is always there, and more than four: steps of
// a sequence are better taken one by one, each when its turn comes.
Graph withJoinedSlices(const Graph &g);

} // namespace isthmus
