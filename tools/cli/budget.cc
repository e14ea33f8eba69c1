#include "tools/cli/budget.h"

#include "tools/cli/exit.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

namespace isthmus {

llvm::Expected<Budget> parseBudget(llvm::StringRef text, llvm::StringRef option) {
  Budget budget;
  if (text == "min") {
    budget.kind = Budget::Smallest;
    return budget;
  }
  auto malformed = [&] {
    return usageError("{0} expects a size such as 2GiB, 500MB or a number of bytes, a share of "
                      "the baseline such as 50%, or min; got '{1}'",
                      option, text);
  };
  llvm::StringRef digits = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  llvm::StringRef unit = text.drop_front(digits.size()).trim();
  double value = 0;
  if (digits.empty() || digits.getAsDouble(value))
    return malformed();
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
    return malformed();
  if (scale == 1 && digits.getAsInteger(10, budget.bytes))
    return malformed();
  if (scale != 1)
    budget.bytes = static_cast<int64_t>(std::llround(value * scale));
  return budget;
}

llvm::Expected<int64_t> parseSize(llvm::StringRef text, llvm::StringRef option) {
  auto size = parseBudget(text, option);
  if (!size)
    return size.takeError();
  if (size->kind != Budget::Bytes)
    return usageError("{0} expects a size such as 2GiB, got '{1}'", option, text);
  return size->bytes;
}

} // namespace isthmus
