// Tells where functions jump: which results may be compared after rounding or with differences.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Whether a small change of a node's operands may make its result jump: comparisons, roundings,
// indices, and gradients of functions with a kink.
bool jumps(const Graph &g);

// Whether a node reads the bytes of one type as another type: such a graph has no other precision.
bool fixesPrecision(const Graph &g);

// Whether central differences of the loss are meaningful in f64: no value on the way is rounded to
// another type, and no node stops gradients. A small step rarely crosses a kink or a jump.
bool isDifferentiableInF64(const Graph &g);

} // namespace isthmus
