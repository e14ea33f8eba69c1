// Sums along contiguous rows, fast and in a fixed order: element i of a row goes to partial sum i %
// 16, in double; the sixteen partial sums are added in order at the end.
#pragma once

#include "kernels/plain/dispatch.h"
#include <algorithm>

namespace isthmus::plain {

class LaneSum {
public:
  static constexpr int64_t kLanes = 16;

  // Adds term(i) for i in [0, n).
  template <typename Term> void addRow(int64_t n, Term term) {
    double lanes[kLanes];
    std::copy(lanes_, lanes_ + kLanes, lanes);
    int64_t whole = n / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l)
        lanes[l] += term(i + l);
    for (int64_t i = whole; i < n; ++i)
      lanes[i - whole] += term(i);
    std::copy(lanes, lanes + kLanes, lanes_);
  }
  double total() const {
    double sum = 0;
    for (double lane : lanes_)
      sum += lane;
    return sum;
  }

private:
  double lanes_[kLanes] = {};
};

} // namespace isthmus::plain
