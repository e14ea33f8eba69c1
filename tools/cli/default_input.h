// What graph inputs hold, by themselves or when something is given.
#pragma once

#include "ir/graph.h"
#include "ir/tensor.h"

namespace isthmus {

// What an input holds when no file gives it: its initializer; else drawn from the seed and the
// name, floats standard normal and integers in the range that their readers allow. Draws do not
// depend on the element type beyond rounding, so a run in f64 starts from f32 numbers. An error if
// its data was not loaded.
llvm::Expected<Tensor> defaultInput(const Graph &g, const Input &input, uint64_t seed);

// A tensor that is given to an input, as the graph wants it: f32 serves in every precision of
// floats. Errors: another type, an index out of the range that its readers allow.
llvm::Expected<Tensor> givenInput(const Graph &g, const Input &input, Tensor given);

// That every element of `t`, integers for the input, may be read as its readers do: an index out of
// range would make NaNs.
llvm::Error checkIndices(const Graph &g, const Input &input, const Tensor &t);

} // namespace isthmus
