// Maps an element's row-major index to its offsets in several tensors that broadcast to one shape.
#pragma once

#include "ir/check.h"
#include "kernels/element/broadcast.h"
#include "kernels/element/portable.h"
#include <utility>

// For loops with few iterations: unrolled copies of the body would be most of a kernel's code.
#ifdef __CUDACC__
#define ISTHMUS_ROLLED _Pragma("unroll 1")
#else
#define ISTHMUS_ROLLED
#endif

namespace isthmus::cuda {

// Division of an index by a size common to many threads, as a multiplication and a shift (Granlund
// and Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994, section 4). The
// sum in their formula, of the index and the upper half of a product, does not overflow because an
// index is below 2^63.
class Divisor {
public:
  Divisor() = default;
  explicit Divisor(int64_t size) : by_(std::max<int64_t>(size, 1)) {
    while ((uint64_t(1) << shift_) < uint64_t(by_))
      ++shift_;
    Wide excess = (Wide(1) << shift_) - Wide(by_);
    multiplier_ = uint64_t((excess << 64) / Wide(by_) + 1);
  }
  // The quotient; `rest` becomes the remainder.
  ISTHMUS_DEVICE int64_t operator()(int64_t i, int64_t *rest) const {
    uint64_t high = uint64_t(Wide(uint64_t(i)) * multiplier_ >> 64);
    int64_t q = int64_t((high + uint64_t(i)) >> shift_);
    *rest = i - q * by_;
    return q;
  }

private:
  using Wide = unsigned __int128;
  int64_t by_ = 1;
  uint64_t multiplier_ = 1;
  int shift_ = 0;
};

// A value that kernels can capture. Walk merges axes that are contiguous in all tensors, so few are
// left.
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
  // The offset of element i in each tensor.
  ISTHMUS_DEVICE void at(int64_t i, int64_t (&offset)[N]) const {
    for (int k = 0; k < N; ++k)
      offset[k] = 0;
    ISTHMUS_ROLLED
    for (int a = axes_ - 1; a > 0; --a) {
      int64_t index;
      i = size_[a](i, &index);
      add(index, a, offset, std::make_integer_sequence<int, N>());
    }
    add(i, 0, offset, std::make_integer_sequence<int, N>());
  }

private:
  // A fold instead of a loop: nvcc unrolls the outer loop, despite ISTHMUS_ROLLED, if it contains
  // another loop.
  template <int... K>
  ISTHMUS_DEVICE void add(int64_t index, int a, int64_t (&offset)[N],
                          std::integer_sequence<int, K...>) const {
    ((offset[K] += index * stride_[a][K]), ...);
  }

  int axes_;
  Divisor size_[kMaxAxes];
  int64_t stride_[kMaxAxes][N];
};

} // namespace isthmus::cuda
