// What a graph promises of its values, as far as inverses ask: what is a weight, what is never
// zero.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Found in one walk over the graph; the graph may grow meanwhile, but values that were not there
// must not be asked about.
class ValueFacts {
public:
  explicit ValueFacts(const Graph &g);

  // Made of parameters, states and constants alone: the same for every example of a step.
  bool isWeight(ValueId v) const { return facts_[v.index].isWeight; }
  // Weights count as never zero, and square ones as invertible: networks that divide by a weight
  // are written so, and what comes of a zero is measured, as rounding is.
  bool isNeverZero(ValueId v) const { return isWeight(v) || facts_[v.index].sign != Sign::Any; }
  // A constant whose integers are those from 0 on, each once.
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
