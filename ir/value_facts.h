// Facts about values that inverses rely on: which are weights, never zero, above zero, or
// permutations.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Computed in one walk over the graph. The graph may grow later, but the queries accept only values
// that existed at construction.
class ValueFacts {
public:
  // Parameters change as a step is repeated. `areWeightsFixed`: they stay as the graph has them.
  explicit ValueFacts(const Graph &g, bool areWeightsFixed = false);

  // Depends on parameters, states and constants alone: the same for every example of a step.
  bool isWeight(ValueId v) const { return facts_[v.index].isWeight; }
  // No element is zero. Parameters count as never zero, and square ones as invertible: networks
  // that divide by a weight rely on that, and the error of an actual zero is measured like
  // rounding. What is computed from a constant with zeros, such as a mask, does not.
  bool isNeverZero(ValueId v) const {
    const Facts &of = facts_[v.index];
    return of.sign != Sign::Any || (of.isWeight && !of.isOfZeros);
  }
  // All elements are above zero.
  bool isPositive(ValueId v) const { return facts_[v.index].sign == Sign::Positive; }
  // The elements of a constant; null for other values, and where the weights file was not read.
  const Tensor *contents(ValueId v) const;
  // An i32 or i64 constant that holds each integer from 0 to its size - 1 once.
  bool isPermutation(ValueId v) const;

private:
  struct Facts {
    bool isWeight = false;
    bool isOfZeros = false; // has elements that are zero, or is a weight computed from such a value
    Sign sign = Sign::Any;
  };
  const Graph &g_;
  std::vector<Facts> facts_; // by value
};

} // namespace isthmus
