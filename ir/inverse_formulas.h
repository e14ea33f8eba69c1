// Functions that exporters and authors write in several nodes, none of which has an inverse alone,
// because the operand is read more than once:
//
//   x / (a x + b)                       the odds in log(x / (1 - x))
//   log(x) - log(1 - x)                 the logit
//   x where beta x > t, else softplus(beta x) / beta
#pragma once

#include "ir/builder.h"
#include <functional>
#include <optional>

namespace isthmus {

struct InverseFormula {
  ValueId x; // of the graph: the operand that can be rebuilt from the result of the last node
  std::function<ValueId(Builder &, ValueId y)> rebuild; // emits x, in the type of `y`
};

// The function whose last node is `last`, if it is one of these, and all of its nodes are forward
// ones of the type of x. Its numbers are constants or, with `areWeightsFixed`, also parameters.
std::optional<InverseFormula> inverseFormulaOf(const Graph &g, NodeId last,
                                               bool areWeightsFixed = false);

} // namespace isthmus
