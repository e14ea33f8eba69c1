#include "passes/lower/held_constants.h"

#include "ir/attr.h"
#include "ir/element.h"
#include "ir/float_range.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

namespace isthmus {
namespace {

constexpr size_t kMostNamed = 3;

// By convention of the op table, attributes of these names are numbers that stand as elements, are
// added to them or compared with them; and the one that multiplies them.
constexpr llvm::StringLiteral kTerms[] = {"value", "shift", "min", "max"};
constexpr llvm::StringLiteral kFactor = "scale";

// Whether `v`, which is not zero, is nearer to zero than to the least number of the type.
bool vanishes(double v, DType to) { return std::fabs(v) <= rangeOf(to).least / 2; }

} // namespace

void HeldConstants::add(std::vector<Change> &to, llvm::StringRef name, int64_t elements, double was,
                        double is) {
  to.push_back({name.str(), elements, was, is});
}

Tensor HeldConstants::tensor(llvm::StringRef name, const Tensor &from) {
  if (from.type.dtype == to_)
    return from;
  const auto [most, least] = rangeOf(to_);
  const int64_t n = from.type.elements();
  int64_t tooLarge = 0, nonZero = 0, tooSmall = 0;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = elementAsDouble(from, i);
    if (v == 0 || !std::isfinite(v)) {
      nonZero += v != 0;
      continue;
    }
    ++nonZero;
    tooSmall += vanishes(v, to_);
    tooLarge += std::fabs(v) > most;
    if (std::fabs(v) > std::fabs(largest))
      largest = v;
  }
  if (tooLarge > 0)
    add(large_, name, tooLarge, largest, std::copysign(most, largest));
  if (tooSmall == 0 || tooSmall < nonZero)
    return roundedTo(from, to_);
  add(small_, name, tooSmall, largest, std::copysign(least, largest));
  return Tensor::make(from.type.with(to_), [&](char *data) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = elementAsDouble(from, i);
      setElement(to_, data, i, v == 0 ? v : std::copysign(least, v));
    }
  });
}

double HeldConstants::number(llvm::StringRef name, llvm::StringRef attr, double v) {
  const auto [most, least] = rangeOf(to_);
  const bool isTerm = llvm::is_contained(kTerms, attr);
  if ((!isTerm && attr != kFactor) || v == 0 || !std::isfinite(v))
    return v;
  if (std::fabs(v) > most) {
    add(large_, name, 1, v, std::copysign(most, v));
    return large_.back().is;
  }
  if (!isTerm || !vanishes(v, to_)) // a small factor may have products in the range
    return v;
  add(small_, name, 1, v, std::copysign(least, v));
  return small_.back().is;
}

std::string HeldConstants::listed(const std::vector<Change> &all) {
  std::string text;
  for (const Change &c : llvm::ArrayRef<Change>(all).take_front(kMostNamed))
    text += llvm::formatv("{0} %{1} ({2}{3} became {4})", text.empty() ? "" : ",", c.name,
                          c.elements > 1 ? std::to_string(c.elements) + " elements, " : "",
                          floatText(c.was), floatText(c.is))
                .str();
  if (all.size() > kMostNamed)
    text += llvm::formatv(" and {0} more", all.size() - kMostNamed).str();
  return text;
}

void HeldConstants::tell(const NoteSink &note) const {
  const auto count = [](const std::vector<Change> &all) {
    return llvm::formatv("{0} constant{1}", all.size(), all.size() == 1 ? "" : "s").str();
  };
  if (note && !large_.empty())
    note(llvm::formatv("{0} beyond the range of {1} became its largest finite number:{2}",
                       count(large_), dtypeName(to_), listed(large_))
             .str());
  if (note && !small_.empty())
    note(llvm::formatv("{0} below the least number of {1} became that number, not zero:{2}",
                       count(small_), dtypeName(to_), listed(small_))
             .str());
}

} // namespace isthmus
