// Dropout that a file writes out, as draws that are compared with a number and a product.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The graph in evaluation, where nothing is dropped: each value that is another one under a mask of
// drawn numbers, scaled such that its mean stays, becomes that other value. The draws stay, perhaps
// as dead nodes. Other uses of drawn numbers are left alone: a mask without its scale is no
// dropout, and neither is noise.
Graph withoutDrawnMasks(const Graph &g);

} // namespace isthmus
