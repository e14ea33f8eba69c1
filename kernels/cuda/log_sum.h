// Sums of exponentials scaled by the largest one, so that no term overflows.
#pragma once

#include "kernels/cuda/reduce.h"
#include "kernels/element/functions.h"

namespace isthmus::cuda {

// The sum of exp(x - base), where `base` is the largest x if that is finite, else zero: inf - inf
// would be NaN if all x are -inf or one is inf. `largest` may miss a NaN; the sum is NaN anyway.
template <typename C> struct LogSum {
  C largest = -std::numeric_limits<C>::infinity();
  C sum = 0;

  ISTHMUS_GPU C base() const { return std::isfinite(largest) ? largest : C(0); }
  ISTHMUS_GPU C log() const { return C(std::log(double(sum)) + double(base())); }
  // What a softmax subtracts: an element inf makes all of its line NaN.
  ISTHMUS_GPU C softmaxBase() const {
    return largest == std::numeric_limits<C>::infinity() ? std::numeric_limits<C>::quiet_NaN()
                                                         : base();
  }
};

// The LogSum of the elements of an output, or of a piece of them.
template <typename T, typename E>
ISTHMUS_GPU LogSum<Compute<T>> logSumOf(const E &elements, const T *x) {
  using C = Compute<T>;
  LogSum<C> s;
  auto read = [&](int64_t at, int64_t) { return C(x[at]); };
  auto larger = [](C most, C v) { return v > most ? v : most; };
  s.largest = elements.reduce(s.largest, read, larger, larger);
  C base = s.base();
  s.sum = elements.reduce(
      C(0), read, [&](C sum, C v) { return sum + expOf(v - base); }, Add());
  return s;
}
template <typename C> ISTHMUS_GPU LogSum<C> folded(LogSum<C> a, LogSum<C> b) {
  LogSum<C> s;
  s.largest = b.largest > a.largest ? b.largest : a.largest;
  C base = s.base();
  // A sum of zeros stays zero, even if the factor is infinite.
  auto scaled = [&](LogSum<C> part) {
    return part.sum == 0 ? C(0) : part.sum * expOf(part.base() - base);
  };
  s.sum = scaled(a) + scaled(b);
  return s;
}

// y = log(sum(exp(x))); Y is T or T's compute type. For a softmax it is NaN if one x is inf.
template <typename T, typename Y> struct LogSumOp {
  static constexpr bool kWrites = false;
  using State = LogSum<Compute<T>>;
  const T *x;
  Y *y;
  bool isForSoftmax = false;

  ISTHMUS_GPU State start() const { return {}; }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return logSumOf(elements, x);
  }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  ISTHMUS_GPU void finish(int64_t out, State s) const {
    y[out] = Y(isForSoftmax ? s.log() + (s.softmaxBase() - s.base()) : s.log());
  }
};

} // namespace isthmus::cuda
