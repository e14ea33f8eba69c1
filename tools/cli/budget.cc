#include "tools/cli/budget.h"

#include "tools/cli/exit.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

namespace isthmus {

// Parses a budget; nothing if it is malformed.
static std::optional<Budget> budgetIn(llvm::StringRef text) {
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

llvm::Expected<Budget> parseBudget(llvm::StringRef text, llvm::StringRef option) {
  if (auto budget = budgetIn(text))
    return *budget;
  return usageError("{0} expects a size such as 2GiB, 500MB or a number of bytes, a share of the "
                    "baseline such as 50%, or min; got '{1}'",
                    option, text);
}

llvm::Expected<int64_t> parseSize(llvm::StringRef text, llvm::StringRef option) {
  if (auto size = budgetIn(text); size && size->kind == Budget::Bytes)
    return size->bytes;
  return usageError("{0} expects a size such as 2GiB, 500MB or a number of bytes; got '{1}'",
                    option, text);
}

llvm::Expected<double> parseRate(llvm::StringRef text, llvm::StringRef option) {
  llvm::StringRef bytes = text;
  bytes.consume_back("/s");
  if (auto rate = budgetIn(bytes); rate && rate->kind == Budget::Bytes && rate->bytes > 0)
    return double(rate->bytes);
  return usageError("{0} expects bytes a second, such as 25GB or 500MB; got '{1}'", option, text);
}

} // namespace isthmus
