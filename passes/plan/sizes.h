// Sums of sizes that stay within 64 bits. Standard library only.
#pragma once

#include "passes/plan/problem.h"

#include <algorithm>

namespace isthmus::plan {

// The most bytes that all storages of a problem may have together with its largest workspace, each
// rounded up. A schedule in which each storage has one instance at a time cannot exceed it; the
// judge checks the others.
constexpr int64_t kMostBytes = int64_t(1) << 62;

// The sum of two sizes, which are not negative; INT64_MAX if it overflows.
inline int64_t saturatingSum(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// Adds up the storages of a problem's ops.
class SizeLimit {
public:
  explicit SizeLimit(const Problem &p) : p_(p) {}

  // False as soon as all ops so far need more than kMostBytes.
  bool allows(const Op &op) {
    for (int64_t bytes : op.outputBytes)
      storages_ = saturatingSum(storages_, rounded(bytes));
    workspace_ = std::max(workspace_, rounded(op.workspace));
    return saturatingSum(storages_, workspace_) <= kMostBytes;
  }

private:
  // A size beyond the limit stays beyond it, and is not rounded: rounding could overflow.
  int64_t rounded(int64_t bytes) const {
    return bytes > kMostBytes ? INT64_MAX : p_.rounded(bytes);
  }

  const Problem &p_;
  int64_t storages_ = 0, workspace_ = 0;
};

} // namespace isthmus::plan
