// The part of a graph that the last differentiation went through.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// By node: whether it comes before the last differentiation. These are the nodes of the forward
// phase and, where gradients are differentiated again, the nodes of earlier differentiations: those
// that the loss or a gradient of a lower order than the highest depends on. To the last backward
// part, what they make is what a network makes to the backward part of its only differentiation.
std::vector<bool> forwardPart(const Graph &g);

} // namespace isthmus
