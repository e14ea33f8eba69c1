// Makes graphs with first gradients, and graphs with gradients of these.
#pragma once

#include "ir/builder.h"
#include "tools/random/draw_inputs.h"

namespace isthmus {

// The inputs by which graphs are differentiated: fed or learned floats, of the loss's type.
ValueList differentiableInputs(const Graph &g);

// Adds an output `grad.NAME`, the gradient of the loss, for each of them.
llvm::Expected<Graph> firstOrder(const Graph &forward);

// These outputs, in order, of a graph that `firstOrder` has made.
ValueList gradientOutputs(const Graph &first);

// Adds an output `grad2.NAME` for each of them to a graph of first order: the gradient of the sum
// of the products of the first gradients and inputs `along.NAME`.
llvm::Expected<Graph> secondOrder(const Graph &first);

} // namespace isthmus
