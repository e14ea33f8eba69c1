// The axis of a sweep, and the lists and ranges of its points.
#pragma once

#include "ir/diagnostics.h"
#include "passes/compile/budget.h"
#include <optional>

namespace isthmus {

enum class SweepAxis : uint8_t { Budget, Batch, Depth };
llvm::StringRef axisName(SweepAxis a); // "budget", "batch", "depth"

// Parses "8,16,32", "8:64:8" (both ends included; without a third part the step is one), or several
// of these separated by commas. Errors are usage errors: not a whole number from 1 on, a repeated
// number, more than `most`.
llvm::Expected<std::vector<int64_t>> parseCounts(llvm::StringRef option, llvm::StringRef text,
                                                 size_t most);

// Parses "90%,2GiB,min", "90%:30%:-10%". The numbers of a range have one unit.
struct SweepBudget {
  std::string text; // as typed
  Budget budget;
};
llvm::Expected<std::vector<SweepBudget>> parseBudgets(llvm::StringRef option, llvm::StringRef text,
                                                      size_t most);

} // namespace isthmus
