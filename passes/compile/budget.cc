#include "passes/compile/budget.h"

#include "ir/attr.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

namespace isthmus {

std::optional<Budget> parseBudget(llvm::StringRef text) {
  Budget budget;
  if (text == "min") {
    budget.kind = Budget::Smallest;
    return budget;
  }
  llvm::StringRef digits = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  llvm::StringRef unit = text.drop_front(digits.size()).trim();
  double value = 0;
  if (digits.empty() || digits.getAsDouble(value))
    return std::nullopt;
  if (unit == "%") {
    budget.kind = Budget::Share;
    budget.share = value / 100;
    return budget;
  }
  double scale = llvm::StringSwitch<double>(unit)
                     .Cases("", "B", 1)
                     .Cases("kB", "KB", 1e3)
                     .Case("MB", 1e6)
                     .Case("GB", 1e9)
                     .Case("TB", 1e12)
                     .Case("KiB", 0x1p10)
                     .Case("MiB", 0x1p20)
                     .Case("GiB", 0x1p30)
                     .Case("TiB", 0x1p40)
                     .Default(0);
  if (scale == 0 || (scale == 1 && digits.contains('.')) || value * scale >= 0x1p62)
    return std::nullopt;
  if (scale == 1 && digits.getAsInteger(10, budget.bytes))
    return std::nullopt;
  if (scale != 1)
    budget.bytes = static_cast<int64_t>(std::llround(value * scale));
  return budget;
}

std::string budgetText(const Budget &budget) {
  if (budget.kind == Budget::Smallest)
    return "min";
  if (budget.kind == Budget::Share) {
    const double percent = std::round(1e10 * budget.share) / 1e8;
    const bool isWhole = percent == std::floor(percent);
    return (isWhole ? std::to_string(int64_t(percent)) : floatText(percent)) + "%";
  }
  constexpr std::pair<const char *, int64_t> kUnits[] = {
      {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};
  for (const auto &[unit, bytes] : kUnits)
    if (budget.bytes > 0 && budget.bytes % bytes == 0)
      return std::to_string(budget.bytes / bytes) + unit;
  return std::to_string(budget.bytes);
}

} // namespace isthmus
