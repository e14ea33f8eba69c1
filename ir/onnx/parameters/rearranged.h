// Tensors that hold the elements of another tensor, or a simple function of each element, in
// another shape, order or precision, bit for bit. Exporters derive such tensors from a weight that
// a model uses in two ways.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <tuple>

namespace isthmus::onnx_import {

// A function of each element x: x, 1 - x or 1 / x, rounded to the tensor's type.
enum class Pointwise : uint8_t { Same, OneMinus, Reciprocal };

// b = cast(reshape(transpose(reshape(made(a), from), perm), shape of b), type of b)
struct Rearrangement {
  Dims from;                          // the shape of a, without axes of size one
  llvm::SmallVector<int64_t, 4> perm; // empty: the order is unchanged
  Pointwise made = Pointwise::Same;
};

// An invariant of all rearrangements: `b` is a rearrangement of made(`a`) only if keyOf(b, type of
// b) is keyOf(a, type of b, made). The tensors must not be empty.
using RearrangementKey = std::tuple<int64_t, DType, uint64_t, uint64_t>;
RearrangementKey keyOf(const Tensor &t, DType as, Pointwise made = Pointwise::Same);

// How `b` is made from made(`a`); nothing if it is not. A cast may only round to b's type.
// Permutations are tried up to rank 4, not counting axes of size one.
std::optional<Rearrangement> rearrangement(const Tensor &a, const Tensor &b,
                                           Pointwise made = Pointwise::Same);

} // namespace isthmus::onnx_import
