// A linear recurrence along a column, on every device: state[i] = b[i] + a[i] * state[i - 1]. At a
// cut the previous state is dropped: state[i] = b[i].
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

template <typename T> struct Recurrence {
  const T *b, *a;  // terms and factors
  const bool *cut; // null: no cuts
  T *y;
  // Whether factor and cut are those of the preceding element.
  bool previous;

  ISTHMUS_DEVICE void column(int64_t at, int64_t length, int64_t step) const {
    double state = 0, before = 0;
    bool cutBefore = false;
    for (int64_t i = 0; i < length; ++i, at += step) {
      double factor = Compute<T>(a[at]), term = Compute<T>(b[at]);
      bool cutsFactor = cut && cut[at];
      // The first element has no preceding state. 0 * infinity would be NaN, so the factor is not
      // used.
      bool fresh = i == 0 || (previous ? cutBefore : cutsFactor);
      state = fresh ? term : term + (previous ? before : factor) * state;
      before = factor;
      cutBefore = cutsFactor;
      y[at] = static_cast<T>(static_cast<Compute<T>>(state));
    }
  }
};

} // namespace isthmus::element
