// Biases that are added to matrix products, as operands of the products.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Every `add` of a vector of columns to a product that nothing else needs becomes one `matmul` with
// a bias, under the add's name and marks; so no pass over memory is left for it. In f32 and f64 the
// result is that of the two, which rounded after each step as the row does; 16-bit floats round
// once less. Forward graphs and differentiated ones; one that was rewritten comes back as it is.
Graph withFusedBias(const Graph &g);

} // namespace isthmus
