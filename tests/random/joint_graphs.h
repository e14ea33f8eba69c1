// Graphs with their gradients, and with the gradients of these.
#pragma once

#include "ir/builder.h"
#include "tools/random/draw_inputs.h"

namespace isthmus {

// What gradients are taken by: floats that are fed or learned, of the loss's type.
ValueList differentiableInputs(const Graph &g);

// Adds an output `grad.NAME` of the loss for each of them.
llvm::Expected<Graph> firstOrder(const Graph &forward);

// Those outputs, in order, of a graph made by `firstOrder`.
ValueList gradientOutputs(const Graph &first);

// Adds to a graph of first order an output `grad2.NAME` for each: the gradient of the sum of the
// products of the first gradients with inputs `along.NAME`.
llvm::Expected<Graph> secondOrder(const Graph &first);

} // namespace isthmus
