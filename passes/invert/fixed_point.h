// Sums x + f(x) in which f is a contraction: x is the fixed point of x = y - f(x), found by
// iterating from x = y (Behrmann et al. 2019, Invertible Residual Networks, algorithm 1).
//
// That f brings any two operands closer together follows from its weights, which no pass looks
// into: the mark `#contraction` on the sum promises it. Each iteration makes the error smaller by
// f's Lipschitz constant.
#pragma once

#include "passes/rebuild.h"

namespace isthmus {

struct FixedPoint {
  NodeId sum;
  ValueId x, branch;         // the operands of the sum; the second is f(x)
  std::vector<NodeId> nodes; // of f that depend on x, in order
  // What f reads beside x: results of other nodes, and inputs. Each once.
  std::vector<ValueId> reads;
};

// Of forward sums with the mark, of two operands of one type of which one is made of the other.
std::vector<FixedPoint> fixedPointsOf(const Graph &g);

// Adds the iterations to `r.to()`, and gives x. What the sum gives and what f reads must be mapped;
// of f's nodes and of x what is mapped afterwards has no meaning.
ValueId iterate(const FixedPoint &f, size_t iterations, Rebuilder &r);

} // namespace isthmus
