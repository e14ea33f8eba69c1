// Numbers on an axis: where they stand, and which of them to write beside it.
#pragma once

#include "tools/sweep/chart.h"

namespace isthmus {

class Scale {
public:
  // Of the numbers to show; values are never below 0. Logarithmic where they double rather than
  // grow by steps (`byRatio`) and none is 0. A scale that is not begins at 0 if `fromZero`.
  Scale(const std::vector<double> &values, ChartUnit unit, bool byRatio, bool fromZero);

  bool isLog() const { return isLog_; }
  double at(double value) const; // 0 at the low end, 1 at the high one
  std::vector<double> ticks(size_t most) const;

private:
  std::vector<double> logTicks(size_t most) const;

  ChartUnit unit_;
  bool isLog_ = false;
  double low_ = 0, high_ = 1;
};

// Whether numbers are spread by ratios rather than by steps: 8, 16, 32, ... 256.
bool growsByRatio(std::vector<double> values);

// "1.5 GiB", "20 ms", "30 %", "64".
std::string numberText(double value, ChartUnit unit);

} // namespace isthmus
