// A graph's floating-point type, changed throughout.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Every float input, constant and node becomes one of `to`; integers and bools stay, and so do
// names. Casts between two float types are left out, unless something refers to them; results that
// an op gives in f32 whatever its operands (statistics) are its own affair. Data is rounded to
// nearest, by way of f32 for the 16-bit types, as the cast op does it.
//
// An error if an op does not take the type, or if data is to be converted that was not loaded.
llvm::Expected<Graph> withPrecision(const Graph &g, DType to);

} // namespace isthmus
