// Facts about values that inverses rely on: which are weights, never zero, or permutations.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Computed in one walk over the graph. The graph may grow later, but the queries accept only values
// that existed at construction.
class ValueFacts {
public:
  explicit ValueFacts(const Graph &g);

  // Depends on parameters, states and constants alone: the same for every example of a step.
  bool isWeight(ValueId v) const { return facts_[v.index].isWeight; }
  // No element is zero. Weights count as never zero, and square ones as invertible: networks that
  // divide by a weight rely on that, and the error of an actual zero is measured like rounding.
  bool isNeverZero(ValueId v) const { return isWeight(v) || facts_[v.index].sign != Sign::Any; }
  // An i32 or i64 constant that holds each integer from 0 to its size - 1 once.
  bool isPermutation(ValueId v) const;

private:
  struct Facts {
    bool isWeight = false;
    Sign sign = Sign::Any;
  };
  const Graph &g_;
  std::vector<Facts> facts_; // by value
};

} // namespace isthmus
