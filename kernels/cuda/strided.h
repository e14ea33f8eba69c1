// From an element's row-major index to its places in several tensors that broadcast to one shape.
#pragma once

#include "ir/check.h"
#include "kernels/element/broadcast.h"
#include "kernels/element/portable.h"

namespace isthmus::cuda {

// Division of an index by a size that many threads share. Indices below 2^31 go by a multiplication
// and a shift (Granlund and Montgomery, Division by Invariant Integers using Multiplication, PLDI
// 1994, with the multiplier of 32 bits and an addition); larger ones by the divider.
class Divisor {
public:
  Divisor() = default;
  explicit Divisor(int64_t size) : by_(std::max<int64_t>(size, 1)) {
    while ((int64_t(1) << shift_) < by_)
      ++shift_;
    if (shift_ < 32)
      multiplier_ = uint32_t(
          ((uint64_t(1) << 32) * ((uint64_t(1) << shift_) - uint64_t(by_))) / uint64_t(by_) + 1);
  }
  // The quotient; `rest` becomes the remainder.
  ISTHMUS_DEVICE int64_t operator()(int64_t i, int64_t *rest) const {
    if (i < (int64_t(1) << 31) && by_ < (int64_t(1) << 31)) {
      uint32_t n = uint32_t(i), high = uint32_t(uint64_t(n) * multiplier_ >> 32);
      uint32_t q = uint32_t((uint64_t(high) + n) >> shift_);
      *rest = n - q * uint32_t(by_);
      return q;
    }
    int64_t q = i / by_;
    *rest = i - q * by_;
    return q;
  }

private:
  int64_t by_ = 1;
  uint32_t multiplier_ = 1;
  int shift_ = 0;
};

// A value that kernels can capture. Axes that are neighbours in all tensors are one (Walk), so few
// are left.
template <int N> class Strided {
public:
  static constexpr int kMaxAxes = 32;
  // Shapes with more axes after merging are declined when a kernel is prepared.
  static bool takes(const element::Walk<N> &walk) { return walk.rank() <= kMaxAxes; }

  explicit Strided(const element::Walk<N> &walk) : axes_(int(walk.rank())) {
    ISTHMUS_CHECK(takes(walk), "a shape of too many axes for a kernel");
    for (int a = 0; a < axes_; ++a) {
      size_[a] = Divisor(walk.size(a));
      for (int k = 0; k < N; ++k)
        stride_[a][k] = walk.stride(k, a);
    }
  }
  // Where element i is in each of the tensors.
  ISTHMUS_DEVICE void at(int64_t i, int64_t (&offset)[N]) const {
    for (int k = 0; k < N; ++k)
      offset[k] = 0;
    for (int a = axes_ - 1; a > 0; --a) {
      int64_t index;
      i = size_[a](i, &index);
      for (int k = 0; k < N; ++k)
        offset[k] += index * stride_[a][k];
    }
    for (int k = 0; k < N; ++k)
      offset[k] += i * stride_[0][k];
  }

private:
  int axes_;
  Divisor size_[kMaxAxes];
  int64_t stride_[kMaxAxes][N];
};

} // namespace isthmus::cuda
