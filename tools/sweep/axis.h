// What a sweep varies, and the lists and ranges that say how.
#pragma once

#include "ir/diagnostics.h"
#include <optional>

namespace isthmus {

enum class SweepAxis : uint8_t { Budget, Batch, Depth };
llvm::StringRef axisName(SweepAxis a); // "budget", "batch", "depth"

// "8,16,32", "8:64:8" (both ends count; without a third part one by one), or several of these with
// commas between. Errors are usage errors: no whole number from 1 on, one that comes twice, more
// than `most`.
llvm::Expected<std::vector<int64_t>> parseCounts(llvm::StringRef option, llvm::StringRef text,
                                                 size_t most);

// "90%,2GiB,min", "90%:30%:-10%". The numbers of a range are of one unit.
llvm::Expected<std::vector<std::string>> parseBudgets(llvm::StringRef option, llvm::StringRef text,
                                                      size_t most);

} // namespace isthmus
