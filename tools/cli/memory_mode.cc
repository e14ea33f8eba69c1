#include "tools/cli/memory_mode.h"

namespace isthmus {

static constexpr llvm::StringRef kModes[] = {"linear", "sqrt", "constant"};

llvm::ArrayRef<llvm::StringRef> memoryModes() { return kModes; }

bool setMemoryMode(PlanFlags &plan, llvm::StringRef word) {
  if (word == "linear") {
    plan.policy = "none";
  } else if (word == "sqrt") {
    plan.policy = "memory";
  } else if (word == "constant") {
    plan.budget = "min";
    if (plan.allow.empty())
      plan.allow = {kRecomputeWay, kInvertWay};
  } else {
    return false;
  }
  return true;
}

} // namespace isthmus
