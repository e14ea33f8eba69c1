#include "tools/sweep/scale.h"

#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace isthmus {
namespace {

// The least step not below `least`: 1, 2 or 5 times a power of ten, or a power of two for bytes.
double niceStep(double least, ChartUnit unit) {
  if (unit == ChartUnit::Bytes)
    return std::exp2(std::ceil(std::log2(std::max(least, 1.0))));
  const double ten = std::pow(10, std::floor(std::log10(least)));
  for (double times : {1, 2, 5})
    if (times * ten >= least * (1 - 1e-9))
      return times * ten;
  return 10 * ten;
}

std::string withUnit(double value, const char *unit) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) < 999.5 ? "%.3g %s" : "%.0f %s", value, unit);
  return text;
}

} // namespace

bool growsByRatio(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.empty() || values.front() <= 0 || values.back() < 8 * values.front())
    return false;
  const double middle = values[(values.size() - 1) / 2];
  return middle * middle <
         (values.front() + values.back()) / 2 * std::sqrt(values.front() * values.back());
}

Scale::Scale(const std::vector<double> &values, ChartUnit unit, bool byRatio, bool fromZero)
    : unit_(unit) {
  if (values.empty())
    return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  low_ = *least, high_ = *most;
  isLog_ = byRatio && low_ > 0;
  if (isLog_) {
    const double pad = std::pow(high_ / low_, 0.04) * 1.02;
    low_ /= pad, high_ *= pad;
    return;
  }
  const double room = high_ > low_ && !fromZero ? (high_ - low_) * 0.04 : high_ * 0.06;
  low_ = fromZero ? 0 : low_ - room;
  high_ += room;
  if (high_ <= low_)
    high_ = low_ + 1;
}

double Scale::at(double value) const {
  if (isLog_)
    return std::log(value / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

std::vector<double> Scale::ticks(size_t most) const {
  if (isLog_)
    return logTicks(most);
  double step = niceStep((high_ - low_) / double(most), unit_);
  if (unit_ == ChartUnit::Count)
    step = std::max(step, 1.0);
  std::vector<double> out;
  for (double i = std::ceil(low_ / step); i * step <= high_; ++i)
    out.push_back(i * step);
  return out;
}

// Powers of two, or of ten for seconds and percents, with a spacing that gives no more than `most`.
// If there are few powers of ten, also 2 and 5 times them.
std::vector<double> Scale::logTicks(size_t most) const {
  const bool isTens = unit_ == ChartUnit::Seconds || unit_ == ChartUnit::Percent;
  const double base = isTens ? 10 : 2;
  const double powers = std::log(high_ / low_) / std::log(base);
  std::vector<double> out;
  const bool isFew = isTens && 3 * powers <= double(most);
  const double apart = std::max(1.0, std::ceil(powers / double(most)));
  for (double p = std::floor(std::log(low_) / std::log(base)); std::pow(base, p) <= high_; ++p)
    for (double times : {1, 2, 5}) {
      const double value = times * std::pow(base, p);
      const bool isWanted = times == 1 ? std::fmod(p, apart) == 0 : isFew;
      if (isWanted && value >= low_ && value <= high_)
        out.push_back(value);
    }
  return out;
}

std::string numberText(double value, ChartUnit unit) {
  switch (unit) {
  case ChartUnit::Count:
    return llvm::formatv("{0}", static_cast<int64_t>(std::llround(value))).str();
  case ChartUnit::Percent:
    return withUnit(value, "%");
  case ChartUnit::Seconds:
    return value == 0     ? "0 s"
           : value < 1e-3 ? withUnit(value * 1e6, "us")
           : value < 1    ? withUnit(value * 1e3, "ms")
                          : withUnit(value, "s");
  case ChartUnit::Bytes:
    break;
  }
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t u = 0;
  for (; value >= 1024 && u + 1 < std::size(kUnits); ++u)
    value /= 1024;
  return withUnit(value, kUnits[value == 0 ? 0 : u]);
}

} // namespace isthmus
