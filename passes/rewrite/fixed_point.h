// Sums x + f(x) in which f is a contraction: x is the fixed point of x = y - f(x), found by
// iterating from x = y (Behrmann et al. 2019, Invertible Residual Networks, algorithm 1).
//
// That f brings any two operands closer together follows from its weights, which no pass looks
// into: the mark `#contraction` on the sum promises it. Each iteration makes the error smaller by
// f's Lipschitz constant.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct FixedPoint {
  NodeId sum;
  uint32_t operand;          // of the sum: x; the other one is f(x)
  std::vector<NodeId> nodes; // of f that depend on x, in order; pure, and not empty
};

// The two of a sum, at most. None of a node that is no forward sum with the mark, of two operands
// of one type of which one is made of the other.
std::vector<FixedPoint> fixedPointsOf(const Graph &g, NodeId sum);

} // namespace isthmus
