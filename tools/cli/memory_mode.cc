#include "tools/cli/memory_mode.h"

namespace isthmus {

static constexpr llvm::StringRef kModes[] = {"linear", "sqrt", "constant"};

llvm::ArrayRef<llvm::StringRef> memoryModes() { return kModes; }

bool setMemoryMode(PlanFlags &plan, llvm::StringRef word) {
  if (word == "linear") {
    plan.policy = Policy::None;
  } else if (word == "sqrt") {
    plan.policy = Policy::Memory;
  } else if (word == "constant") {
    plan.budget = Budget{Budget::Smallest};
    if (plan.allow.empty())
      plan.allow = {kRecomputeWay, kInvertWay};
  } else {
    return false;
  }
  return true;
}

} // namespace isthmus
