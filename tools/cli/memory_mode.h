// Three words for how the memory of a training step grows with the depth of a network.
#pragma once

#include "tools/cli/options.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace isthmus {

// "linear": everything is kept. "sqrt": like --policy=memory. "constant": like --budget=min, with
// inverses unless --allow says otherwise.
llvm::ArrayRef<llvm::StringRef> memoryModes();

// Sets the flags for which the word stands; false, with nothing set, if it is none of the words.
bool setMemoryMode(PlanFlags &plan, llvm::StringRef word);

} // namespace isthmus
