#include "tools/cli/budget.h"

#include "tools/cli/exit.h"

namespace isthmus {

llvm::Expected<Budget> budgetOption(llvm::StringRef text, llvm::StringRef option) {
  if (auto budget = parseBudget(text))
    return *budget;
  return usageError("{0} expects {1}; got '{2}'", option, kBudgetForms, text);
}

llvm::Expected<int64_t> parseSize(llvm::StringRef text, llvm::StringRef option) {
  if (auto size = parseBudget(text); size && size->kind == Budget::Bytes)
    return size->bytes;
  return usageError("{0} expects a size such as 2GiB, 500MB or a number of bytes; got '{1}'",
                    option, text);
}

llvm::Expected<double> parseRate(llvm::StringRef text, llvm::StringRef option) {
  llvm::StringRef bytes = text;
  bytes.consume_back("/s");
  if (auto rate = parseBudget(bytes); rate && rate->kind == Budget::Bytes && rate->bytes > 0)
    return double(rate->bytes);
  return usageError("{0} expects bytes a second, such as 25GB or 500MB; got '{1}'", option, text);
}

} // namespace isthmus
