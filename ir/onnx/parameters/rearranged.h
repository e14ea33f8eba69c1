// Tensors that hold the elements of another one, or a simple function of each, in another shape,
// order or precision, bit for bit: what exporters make of one weight that a model uses in two ways.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <tuple>

namespace isthmus::onnx_import {

// Of each element x: x, 1 - x or 1 / x, rounded to the type of the tensor.
enum class Pointwise : uint8_t { Same, OneMinus, Reciprocal };

// b = cast(reshape(transpose(reshape(made(a), from), perm), shape of b), type of b)
struct Rearrangement {
  Dims from;                          // the shape of a without axes of one
  llvm::SmallVector<int64_t, 4> perm; // empty: the order stays
  Pointwise made = Pointwise::Same;
};

// What stays the same under every rearrangement: `b` is one of made(`a`) only if keyOf(b, type of
// b) is keyOf(a, type of b, made). Of tensors with elements.
using RearrangementKey = std::tuple<int64_t, DType, uint64_t, uint64_t>;
RearrangementKey keyOf(const Tensor &t, DType as, Pointwise made = Pointwise::Same);

// How `b` is made from made(`a`); nothing if it is not. A cast is one that loses nothing but what
// b's type cannot hold. Shapes without axes of one are permuted up to rank 4.
std::optional<Rearrangement> rearrangement(const Tensor &a, const Tensor &b,
                                           Pointwise made = Pointwise::Same);

} // namespace isthmus::onnx_import
