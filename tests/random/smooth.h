// Where functions jump: what may be compared after rounding, and what by differences.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Whether a value may change by a step where its operands change by little: comparisons, roundings,
// indices, and gradients of what has a bend.
bool jumps(const Graph &g);

// Whether a row reads the bytes of one type as another's: such a graph has no other precision.
bool fixesPrecision(const Graph &g);

// Whether central differences of the loss in f64 mean something: no value is rounded to another
// type on the way, and no row stops gradients. Bends and jumps are rarely met by a small step.
bool isDifferentiableInF64(const Graph &g);

} // namespace isthmus
