// Places numbers on an axis, and chooses those to write beside it.
#pragma once

#include "tools/sweep/chart.h"

namespace isthmus {

class Scale {
public:
  // A scale for `values`, none of which is below 0. The scale is logarithmic if they grow by ratios
  // (`byRatio`) and none is 0. A linear scale begins at 0 if `fromZero`.
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

// Whether numbers grow by ratios rather than by steps: 8, 16, 32, ... 256.
bool growsByRatio(std::vector<double> values);

// "1.5 GiB", "20 ms", "30 %", "64".
std::string numberText(double value, ChartUnit unit);

} // namespace isthmus
