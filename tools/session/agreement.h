// Whether processes that run one step together mean the same step.
#pragma once

#include "ir/graph.h"
#include "runtime/process_group.h"

namespace isthmus {

// Collective. An error, in all processes, if one of them compiled another graph than `g`, or for
// another target; it names the processes and what differs.
llvm::Error checkAllCompiled(const Graph &g, llvm::StringRef target, ProcessGroup &group);

// Collective. The same if `text` is not that of all processes; `what` says what the text describes:
// "data or options".
llvm::Error checkAllHave(llvm::StringRef text, llvm::StringRef what, ProcessGroup &group);

} // namespace isthmus
