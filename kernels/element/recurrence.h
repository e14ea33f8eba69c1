// A linear recurrence along a column, on every device: each state is its term and the one before
// times a factor, but where it is cut off.
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

template <typename T> struct Recurrence {
  const T *b, *a;  // terms and factors
  const bool *cut; // null: nowhere
  T *y;
  bool previous; // whether the factor, and the cut, are those of the element before

  ISTHMUS_DEVICE void column(int64_t at, int64_t length, int64_t step) const {
    double state = 0, before = 0;
    bool cutBefore = false;
    for (int64_t i = 0; i < length; ++i, at += step) {
      double factor = Compute<T>(a[at]), term = Compute<T>(b[at]);
      bool cutsFactor = cut && cut[at];
      // The first has nothing before it, though its factor be infinite.
      bool fresh = i == 0 || (previous ? cutBefore : cutsFactor);
      state = fresh ? term : term + (previous ? before : factor) * state;
      before = factor;
      cutBefore = cutsFactor;
      y[at] = static_cast<T>(static_cast<Compute<T>>(state));
    }
  }
};

} // namespace isthmus::element
