// Recognizes dropout that a file spells out: random numbers, a comparison and a product.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The graph for evaluation, without dropout: each value that is another value times a random mask,
// scaled so that its mean stays, becomes that other value. The random nodes stay, perhaps as dead
// nodes. Other uses of random numbers are left alone: a mask without a scale is not dropout, and
// neither is noise.
Graph withoutDrawnMasks(const Graph &g);

} // namespace isthmus
