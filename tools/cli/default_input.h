// What graph inputs hold where no file says so.
#pragma once

#include "ir/element.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace isthmus {

// What an input holds when no file gives it: its initializer; else drawn from the seed and the
// name, floats standard normal and integers in the range that their readers allow. Draws do not
// depend on the element type beyond rounding, so a run in f64 starts from f32 numbers. An error if
// its data was not loaded.
llvm::Expected<Tensor> defaultInput(const Graph &g, const Input &input, uint64_t seed);

// An operand that is read as an index.
struct IndexReader {
  OpCall call;
  size_t operand;
  int64_t bound;

  bool takes(int64_t index) const;
};

// Those that read `v`. Reshaped labels are bounded by who reads the reshape.
std::vector<IndexReader> indexReaders(const Graph &g, ValueId v);

// With element i made of `value(i)`.
template <typename Value> Tensor filledTensor(const Type &type, Value value) {
  return Tensor::make(type, [&](char *to) {
    for (int64_t i = 0, n = type.elements(); i < n; ++i)
      setElement(type.dtype, to, i, value(i));
  });
}

} // namespace isthmus
