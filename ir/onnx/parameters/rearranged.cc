#include "ir/onnx/parameters/rearranged.h"

#include "ir/element.h"
#include "ir/half.h"
#include "ir/onnx/tensor_data.h"
#include <algorithm>
#include <cstring>
#include <numeric>

namespace isthmus::onnx_import {
namespace {

double roundedTo(DType t, double v) {
  switch (t) {
  case DType::F16:
    return f16ToFloat(floatToF16(float(v)));
  case DType::BF16:
    return bf16ToFloat(floatToBF16(float(v)));
  case DType::F32:
    return float(v);
  default:
    return v;
  }
}

// Element i of made(`a`). f64 is precise enough that rounding its result to f32 equals rounding
// once.
double elementOf(const Tensor &a, int64_t i, Pointwise made) {
  const double x = elementAsDouble(a, i);
  return made == Pointwise::Same
             ? x
             : roundedTo(a.type.dtype, made == Pointwise::OneMinus ? 1 - x : 1 / x);
}

// Whether element i of made(`a`), rounded to b's type, is element j of `b`.
bool isSame(const Tensor &a, int64_t i, Pointwise made, const Tensor &b, int64_t j) {
  if (a.type.dtype != b.type.dtype || made != Pointwise::Same)
    return roundedTo(b.type.dtype, elementOf(a, i, made)) == elementAsDouble(b, j);
  size_t width = size_t(dtypeBytes(a.type.dtype));
  return std::memcmp(a.data + size_t(i) * width, b.data + size_t(j) * width, width) == 0;
}

// Whether the elements of `b`, in order, are those of made(`a`), reshaped to `dims` and transposed
// by `perm`.
bool isPermuted(const Tensor &a, Pointwise made, llvm::ArrayRef<int64_t> dims,
                llvm::ArrayRef<int64_t> perm, const Tensor &b) {
  size_t rank = dims.size();
  llvm::SmallVector<int64_t, 4> stride(rank), index(rank, 0), step(rank), size(rank);
  for (int64_t s = 1, i = int64_t(rank) - 1; i >= 0; s *= dims[size_t(i)], --i)
    stride[size_t(i)] = s;
  for (size_t i = 0; i < rank; ++i) {
    step[i] = stride[size_t(perm[i])];
    size[i] = dims[size_t(perm[i])];
  }
  int64_t at = 0;
  for (int64_t j = 0, n = b.type.elements(); j < n; ++j) {
    if (!isSame(a, at, made, b, j))
      return false;
    for (size_t k = rank; k-- > 0;) { // advance the index like an odometer
      at += step[k];
      if (++index[k] < size[k])
        break;
      at -= step[k] * size[k];
      index[k] = 0;
    }
  }
  return true;
}

Dims withoutOnes(llvm::ArrayRef<int64_t> dims) {
  Dims out;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(out), [](int64_t d) { return d != 1; });
  return out;
}

} // namespace

// Every rearrangement keeps the first and the last element in place.
RearrangementKey keyOf(const Tensor &t, DType as, Pointwise made) {
  auto bits = [&](int64_t i) {
    double v = roundedTo(as, elementOf(t, i, made));
    uint64_t out;
    std::memcpy(&out, &v, sizeof out);
    return out;
  };
  return {t.type.elements(), as, bits(0), bits(t.type.elements() - 1)};
}

std::optional<Rearrangement> rearrangement(const Tensor &a, const Tensor &b, Pointwise made) {
  int64_t n = a.type.elements();
  if (n != b.type.elements() || n == 0)
    return std::nullopt;
  Dims from = withoutOnes(a.type.dims), to = withoutOnes(b.type.dims);
  llvm::SmallVector<int64_t, 4> perm(from.size());
  std::iota(perm.begin(), perm.end(), 0);
  if (isPermuted(a, made, from, perm, b)) // the shape may differ
    return Rearrangement{from, {}, made};
  constexpr size_t kMostAxes = 4;
  if (from.size() != to.size() || from.size() > kMostAxes)
    return std::nullopt;
  while (std::next_permutation(perm.begin(), perm.end())) {
    bool fits = true;
    for (size_t i = 0; i < perm.size(); ++i)
      fits &= from[size_t(perm[i])] == to[i];
    if (fits && isPermuted(a, made, from, perm, b))
      return Rearrangement{from, perm, made};
  }
  return std::nullopt;
}

} // namespace isthmus::onnx_import
