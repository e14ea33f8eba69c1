#include "tools/sweep/axis.h"

#include "ir/attr.h"
#include "tools/cli/budget.h"
#include "tools/cli/exit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

namespace isthmus {
namespace {

// A number and its unit: {90, "%"}.
struct Amount {
  double value = 0;
  std::string unit;
};

std::optional<Amount> amountIn(llvm::StringRef text) {
  const size_t end = text.find_first_not_of("+-.0123456789");
  Amount a;
  if (text.substr(0, end).getAsDouble(a.value) || !std::isfinite(a.value))
    return std::nullopt;
  a.unit = text.drop_front(std::min(end, text.size())).trim().str();
  return a;
}

// Rounds to millionths, to remove the noise of binary fractions.
std::string amountText(double value, const std::string &unit) {
  constexpr double kParts = 1e6;
  value = std::round(value * kParts) / kParts;
  if (value == std::round(value) && std::abs(value) < 0x1p53)
    return std::to_string(static_cast<int64_t>(value)) + unit;
  return floatText(value) + unit;
}

// A range from one end to the other, such as "90%:30%:-10%".
class Range {
public:
  Range(llvm::StringRef option, llvm::StringRef text) : option_(option), text_(text) {}

  llvm::Expected<std::vector<std::string>> values(bool needsStep, size_t most) const {
    llvm::SmallVector<llvm::StringRef, 4> parts;
    text_.split(parts, ':');
    if (parts.size() > 3 || (needsStep && parts.size() < 3))
      return wrong("a range as FROM:TO:STEP");
    std::vector<Amount> amounts;
    for (llvm::StringRef part : parts) {
      auto a = amountIn(part.trim());
      if (!a)
        return wrong("numbers in a range FROM:TO:STEP");
      if (!amounts.empty() && a->unit != amounts.front().unit)
        return wrong("numbers of one unit in a range, such as 90%:30%:-10%");
      amounts.push_back(*a);
    }
    const double from = amounts[0].value, to = amounts[1].value;
    const double step = amounts.size() == 3 ? amounts[2].value : (to < from ? -1 : 1);
    if (step == 0 || (to - from) / step < 0)
      return wrong("a step that leads from one end of a range to the other");
    constexpr double kSlack = 1e-9; // as a share of a step, so that the last one is included
    const double steps = std::floor((to - from) / step + kSlack);
    if (steps >= double(most))
      return wrong(llvm::formatv("{0} values at most", most).str().c_str());
    std::vector<std::string> out;
    for (double i = 0; i <= steps; ++i)
      out.push_back(amountText(from + i * step, amounts[0].unit));
    return out;
  }

private:
  llvm::Error wrong(const char *what) const {
    return usageError("{0} expects {1}, got '{2}'", option_, what, text_);
  }

  llvm::StringRef option_, text_;
};

// The values of a list, with its ranges expanded; each value occurs once.
llvm::Expected<std::vector<std::string>> valuesIn(llvm::StringRef option, llvm::StringRef text,
                                                  bool needsStep, size_t most) {
  std::vector<std::string> out;
  for (llvm::StringRef part : llvm::split(text, ',')) {
    part = part.trim();
    if (part.contains(':')) {
      auto values = Range(option, part).values(needsStep, most);
      if (!values)
        return values.takeError();
      out.insert(out.end(), values->begin(), values->end());
    } else {
      out.push_back(part.str());
    }
    if (out.size() > most)
      return usageError("{0} expects {1} values at most, got '{2}'", option, most, text);
  }
  llvm::StringSet<> seen;
  for (const std::string &value : out)
    if (!seen.insert(value).second)
      return usageError("{0} expects each value once, got {1} twice in '{2}'", option, value, text);
  return out;
}

} // namespace

llvm::StringRef axisName(SweepAxis a) {
  return a == SweepAxis::Budget ? "budget" : a == SweepAxis::Batch ? "batch" : "depth";
}

llvm::Expected<std::vector<int64_t>> parseCounts(llvm::StringRef option, llvm::StringRef text,
                                                 size_t most) {
  auto values = valuesIn(option, text, /*needsStep=*/false, most);
  if (!values)
    return values.takeError();
  std::vector<int64_t> out;
  for (llvm::StringRef value : *values) {
    int64_t n = 0;
    if (value.getAsInteger(10, n) || n < 1)
      return usageError("{0} expects whole numbers from 1 on, as a list such as 8,16,32 or a range "
                        "such as 8:64:8, got '{1}'",
                        option, value);
    out.push_back(n);
  }
  return out;
}

llvm::Expected<std::vector<SweepBudget>> parseBudgets(llvm::StringRef option, llvm::StringRef text,
                                                      size_t most) {
  auto values = valuesIn(option, text, /*needsStep=*/true, most);
  if (!values)
    return values.takeError();
  std::vector<SweepBudget> out;
  for (std::string &value : *values) {
    auto budget = budgetOption(value, option);
    if (!budget)
      return budget.takeError();
    out.push_back({std::move(value), *budget});
  }
  return out;
}

} // namespace isthmus
