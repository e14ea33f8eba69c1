// Iterates over several tensors in step, under one shape to which each broadcasts.
#pragma once

#include "ir/type.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>

namespace isthmus::element {

// A shape and the strides, in elements, of N tensors. Axes that are contiguous in all tensors are
// merged and axes of size one are dropped, so the last axis is as long as possible: for dense
// tensors that broadcast, its strides are 1 or 0.
template <size_t N> class Walk {
public:
  Walk(llvm::ArrayRef<int64_t> dims, const std::array<Dims, N> &strides) {
    for (size_t i = 0; i < dims.size(); ++i) {
      elements_ *= dims[i];
      if (dims[i] == 1)
        continue;
      std::array<int64_t, N> s;
      bool joins = !dims_.empty();
      for (size_t k = 0; k < N; ++k) {
        s[k] = strides[k][i];
        joins = joins && strides_.back()[k] == s[k] * dims[i];
      }
      if (joins) {
        dims_.back() *= dims[i];
        strides_.back() = s;
      } else {
        dims_.push_back(dims[i]);
        strides_.push_back(s);
      }
    }
    if (dims_.empty()) {
      dims_.push_back(1);
      strides_.push_back({});
    }
  }

  int64_t elements() const { return elements_; }
  int64_t rows() const { return elements_ == 0 ? 0 : elements_ / dims_.back(); }
  int64_t rowLength() const { return dims_.back(); }
  size_t rank() const { return dims_.size(); } // at least one
  int64_t size(size_t axis) const { return dims_[axis]; }
  int64_t stride(size_t k, size_t axis) const { return strides_[axis][k]; }
  int64_t rowStride(size_t k) const { return strides_.back()[k]; } // between neighbours in a row

  // Calls body(offsets, count) for the rows, and parts of rows, that make up elements [begin, end)
  // of the shape; `offsets[k]` is the offset in tensor k of the part's first element. Loops that
  // should be vectorised belong inside the body (`vectorised`), one row at a time.
  using RowBody = llvm::function_ref<void(const std::array<int64_t, N> &offsets, int64_t count)>;
  void forEachRow(int64_t begin, int64_t end, RowBody body) const {
    if (begin >= end)
      return;
    size_t last = dims_.size() - 1;
    Dims index(dims_.size());
    std::array<int64_t, N> offsets{};
    for (size_t i = dims_.size(), rest = begin; i-- > 0;) {
      index[i] = rest % dims_[i];
      rest /= dims_[i];
      for (size_t k = 0; k < N; ++k)
        offsets[k] += index[i] * strides_[i][k];
    }
    for (int64_t at = begin; at < end;) {
      int64_t count = std::min(dims_[last] - index[last], end - at);
      body(offsets, count);
      at += count;
      // Advances to the start of the next row: resets the last axis, then carries.
      for (size_t k = 0; k < N; ++k)
        offsets[k] -= index[last] * strides_[last][k];
      index[last] = 0;
      for (size_t i = last; i-- > 0;) {
        for (size_t k = 0; k < N; ++k)
          offsets[k] += strides_[i][k];
        if (++index[i] < dims_[i])
          break;
        for (size_t k = 0; k < N; ++k)
          offsets[k] -= dims_[i] * strides_[i][k];
        index[i] = 0;
      }
    }
  }

private:
  int64_t elements_ = 1;
  Dims dims_;
  llvm::SmallVector<std::array<int64_t, N>, 4> strides_;
};

// Strides of a dense tensor of dims `dims`.
inline Dims denseStrides(llvm::ArrayRef<int64_t> dims) {
  Dims strides(dims.size());
  int64_t s = 1;
  for (size_t i = dims.size(); i-- > 0; s *= dims[i])
    strides[i] = s;
  return strides;
}

// Strides that read a dense tensor of dims `from` under the shape `to`, by numpy's broadcasting
// rule.
inline Dims broadcastStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  Dims dense = denseStrides(from), strides(to.size(), 0);
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    strides[lead + i] = from[i] == 1 ? 0 : dense[i];
  return strides;
}

} // namespace isthmus::element
