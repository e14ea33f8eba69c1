// Tensors that hold the elements of another one in another shape, order or precision, bit for bit:
// what exporters make of one weight that a model uses in two ways.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <tuple>

namespace isthmus::onnx_import {

// b = cast(reshape(transpose(reshape(a, from), perm), shape of b), type of b)
struct Rearrangement {
  Dims from;                          // the shape of a without axes of one
  llvm::SmallVector<int64_t, 4> perm; // empty: the order stays
};

// What stays the same under every rearrangement: `b` is one of `a` only if keyOf(b, type of b) is
// keyOf(a, type of b). Of tensors with elements.
using RearrangementKey = std::tuple<int64_t, DType, uint64_t, uint64_t>;
RearrangementKey keyOf(const Tensor &t, DType as);

// How `b` is made from `a`; nothing if it is not. A cast is one that loses nothing but what b's
// type cannot hold. Shapes without axes of one are permuted up to rank 4.
std::optional<Rearrangement> rearrangement(const Tensor &a, const Tensor &b);

} // namespace isthmus::onnx_import
