#include "ir/units.h"

#include "llvm/Support/FormatVariadic.h"

namespace isthmus {

std::string bytesText(int64_t bytes) {
  static constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024)
    return std::to_string(bytes) + " B";
  double value = double(bytes);
  int unit = -1;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return llvm::formatv("{0:F1} {1}", value, units[unit]).str();
}

std::string secondsText(double s) {
  if (s < 1e-3)
    return llvm::formatv("{0:F1} us", s * 1e6).str();
  if (s < 1)
    return llvm::formatv("{0:F1} ms", s * 1e3).str();
  return llvm::formatv("{0:F2} s", s).str();
}

} // namespace isthmus
