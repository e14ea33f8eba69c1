// Which axes of a step's inputs count its examples.
#pragma once

#include "ir/axis_cut.h"
#include "ir/graph.h"
#include <optional>

namespace isthmus {

// What a person says of an input.
struct BatchRequest {
  std::string input;            // without '%'
  std::optional<uint32_t> axis; // on which it has the examples; none: it has none, and stays whole
};

// "%x:axis=1", or "%mask:whole". Errors say what was expected.
llvm::Expected<BatchRequest> parseBatchRequest(llvm::StringRef text);

struct BatchAxes {
  // By input of the graph: how it is cut between examples; none for parameters, and for others
  // without examples.
  std::vector<std::optional<AxisCut>> ofInputs;
  int64_t examples = 0; // all of these cuts have as many places, or a multiple; 0: no input has any
  // The input whose examples are on another axis than 0, although nobody said so.
  std::optional<size_t> found;
};

// The inputs of `requests` have the examples as they say. Without any, the first input with a first
// size of two or more has them on axis 0; unless nodes need that axis whole, and fewer nodes need
// another axis whole which nearly as many values have (nine tenths), as in a file of [T, B, D].
// From there cuts (ir/axis_cut.h) tell the axes of the others, on whichever axis they come. An
// input that they do not reach has the examples on axis 0 if it has as many, or a multiple, and
// that axis is no other one: neither a parameter, a state or a constant nor an input with examples
// shares it. So the inputs of two towers have examples that only meet in a loss; a mask of all
// positions, one row for all, a scalar, and a vector by which the gradients of parameters are
// multiplied have none. `g` has unreduced losses (chunk.h): others need all examples. Errors: a
// request that names no input, or an axis that the input does not have.
llvm::Expected<BatchAxes> batchAxes(const Graph &g, llvm::ArrayRef<BatchRequest> requests);

} // namespace isthmus
