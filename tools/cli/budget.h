// How budgets are written on the command line.
#pragma once

#include "ir/diagnostics.h"
#include <cstdint>

namespace isthmus {

// 2GiB, 500MB, 123456 (bytes), 50% (of the baseline) or min.
struct Budget {
  enum Kind : uint8_t { Bytes, Share, Smallest } kind = Bytes;
  int64_t bytes = 0;
  double share = 0;

  int64_t of(int64_t baseline) const {
    return kind == Share ? static_cast<int64_t>(share * static_cast<double>(baseline)) : bytes;
  }
};

// Errors have exit code 2.
llvm::Expected<Budget> parseBudget(llvm::StringRef text, llvm::StringRef option = "--budget");

} // namespace isthmus
