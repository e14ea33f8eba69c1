// Tensors that hold the elements of another one in another shape, order or precision, bit for bit:
// what exporters make of one weight that a model uses in two ways.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace isthmus::onnx_import {

// b = cast(reshape(transpose(reshape(a, from), perm), shape of b), type of b)
struct Rearrangement {
  Dims from;                          // the shape of a without axes of one
  llvm::SmallVector<int64_t, 4> perm; // empty: the order stays
};

// How `b` is made from `a`; nothing if it is not. A cast is one that loses nothing but what b's
// type cannot hold. Shapes without axes of one are permuted up to rank 4.
std::optional<Rearrangement> rearrangement(const Tensor &a, const Tensor &b);

} // namespace isthmus::onnx_import
