// Three words for how much memory a training step takes, as it grows with the depth of a network.
#pragma once

#include "tools/cli/options.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace isthmus {

// "linear": everything is kept. "sqrt": as --policy=memory. "constant": as --budget=min, by
// inverses too unless --allow says otherwise.
llvm::ArrayRef<llvm::StringRef> memoryModes();

// Sets what the word stands for; false, and nothing is set, if it is none of them.
bool setMemoryMode(PlanFlags &plan, llvm::StringRef word);

} // namespace isthmus
