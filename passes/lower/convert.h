// Changes the floating-point type of a whole graph. Changes rounding.
#pragma once

#include "ir/diagnostics.h"
#include "ir/graph.h"

namespace isthmus {

// Every float input, constant and node gets element type `to`; integers, bools and names stay.
// Casts between two float types are removed, unless an output, a clone, a mark or an `after` edge
// refers to them. Results that an op always gives in f32 (statistics) stay f32, and operands that
// it always takes in f32 are cast. Data is rounded to nearest, through f32 for the 16-bit types, as
// the cast op does; constants that `to` does not hold become its largest or least number
// (held_constants.h), and a note of each kind names them. A budget on record goes where types
// change: it was for the values as they were.
//
// Errors: an op that does not accept the type; data to convert that was not loaded.
llvm::Expected<Graph> withPrecision(const Graph &g, DType to, const NoteSink &note = {});

} // namespace isthmus
