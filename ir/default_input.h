// The contents of graph inputs: by default, or as given by the user.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

namespace isthmus {

// The contents of an input without a file: its initializer, or else values drawn by the seed and
// the input's name: floats are standard normal, integers lie in the range that their readers allow.
// Draws do not depend on the element type beyond rounding, so a run in f64 starts from f32 numbers.
// An error if its data was not loaded.
llvm::Expected<Tensor> defaultInput(const Graph &g, const Input &input, uint64_t seed);

// Converts a tensor given for an input to the type that the graph wants; f32 serves for every float
// type. Errors: another type, an index out of the range that its readers allow.
llvm::Expected<Tensor> givenInput(const Graph &g, const Input &input, Tensor given);

// Checks that the readers of the input accept every element of `t` as an index: an index out of
// range would make NaNs.
llvm::Error checkIndices(const Graph &g, const Input &input, const Tensor &t);

} // namespace isthmus
