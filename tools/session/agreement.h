// Whether processes that run one step together mean the same step.
#pragma once

#include "ir/graph.h"
#include "runtime/process_group.h"

namespace isthmus {

// Collective. An error, in all processes, if one of them compiled another graph than `g`, or for
// another target; it names the processes and what differs.
llvm::Error checkAllCompiled(const Graph &g, llvm::StringRef target, ProcessGroup &group);

} // namespace isthmus
