// Byte budgets and numbers in the options of searches.

#include "tools/c/search.h"

using namespace isthmus;
using namespace isthmus::c;

isthmus_status isthmus::c::checkNumbers(llvm::ArrayRef<std::pair<const char *, double>> all,
                                        isthmus_error **error) {
  for (const auto &[name, number] : all)
    if (!(number >= 0) || std::isinf(number))
      return fail(ISTHMUS_BAD_CALL,
                  llvm::formatv("'{0}' is to be a number from 0 on, got {1}", name, number).str(),
                  error);
  return ISTHMUS_OK;
}

Budget isthmus::c::budgetOf(int64_t bytes, double share) {
  if (bytes >= 0)
    return {Budget::Bytes, bytes};
  if (share == 0)
    return {Budget::Smallest};
  return {Budget::Share, 0, share};
}

isthmus_status isthmus_budget_parse(const char *text, int64_t *bytes, double *share,
                                    isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(text);
    ISTHMUS_NOT_NULL(bytes);
    ISTHMUS_NOT_NULL(share);
    const auto budget = parseBudget(text);
    if (!budget)
      return fail(ISTHMUS_BAD_INPUT, "a budget is " + kBudgetForms.str() + "; got '" + text + "'",
                  error);
    // A share of 0 is "min" for the options, so a budget of 0 % is one of 0 bytes.
    const bool isShare = budget->kind == Budget::Share && budget->share > 0;
    *bytes = isShare || budget->kind == Budget::Smallest ? -1 : budget->bytes;
    *share = isShare ? budget->share : 0;
    return ISTHMUS_OK;
  });
}
