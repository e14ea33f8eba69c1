// Parses budgets as written on the command line.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// 2GiB, 500MB, 123456 (bytes), 50% (of the baseline) or min. Errors are usage errors.
llvm::Expected<Budget> budgetOption(llvm::StringRef text, llvm::StringRef option = "--budget");

// Parses a size alone, in bytes.
llvm::Expected<int64_t> parseSize(llvm::StringRef text, llvm::StringRef option);
// Parses bytes a second: "25GB", "25GB/s".
llvm::Expected<double> parseRate(llvm::StringRef text, llvm::StringRef option);

} // namespace isthmus
