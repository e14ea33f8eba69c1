// Byte budgets, and their spelling.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace isthmus {

// The size that the arena must not exceed.
struct Budget {
  enum Kind : uint8_t { Bytes, Share, Smallest } kind = Bytes; // Smallest: the smallest found
  int64_t bytes = 0;
  double share = 0; // of the baseline

  int64_t of(int64_t baseline) const {
    return kind == Share ? static_cast<int64_t>(share * static_cast<double>(baseline)) : bytes;
  }
};

// 2GiB, 500MB, 123456 (bytes), 50% (of the baseline) or min; nothing if the text is none of these.
std::optional<Budget> parseBudget(llvm::StringRef text);

// As parseBudget takes it: "50%", "2GiB", "min".
std::string budgetText(const Budget &budget);

// What parseBudget takes, for messages.
constexpr llvm::StringLiteral kBudgetForms =
    "a size such as 2GiB, 500MB or a number of bytes, a share of the baseline such as 50%, or min";

} // namespace isthmus
