// Fuses an added bias into the matrix product, as an operand. Changes rounding, of 16-bit floats.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// An `add` of a vector with one element per column to a product that has no other reader becomes
// one `matmul` with a bias, under the add's name and marks. This saves a pass over memory. In f32
// and f64 the result has the bits of the two nodes, because the fused row also rounds after each
// step; 16-bit floats round once less. Accepts forward and differentiated graphs; a rewritten graph
// is returned unchanged.
Graph withFusedBias(const Graph &g);

} // namespace isthmus
