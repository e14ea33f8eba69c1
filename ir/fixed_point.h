// Sums x + f(x) in which f is a contraction: x is the fixed point of x = y - f(x), found by
// iterating from x = y (Behrmann et al. 2019, Invertible Residual Networks, algorithm 1).
//
// Whether f is a contraction depends on its weights, which no pass inspects; the mark
// `#contraction` on the sum promises it. Each iteration reduces the error by the factor of f's
// Lipschitz constant.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct FixedPoint {
  NodeId sum;
  uint32_t operand;          // index of x among the sum's operands; the other operand is f(x)
  std::vector<NodeId> nodes; // the nodes of f that depend on x, in order; all pure, at least one
};

// The fixed points of a sum, at most two. The sum must be a forward `add` with the mark, of two
// operands of the same type, one of which depends on the other; otherwise there are none.
std::vector<FixedPoint> fixedPointsOf(const Graph &g, NodeId sum);

} // namespace isthmus
