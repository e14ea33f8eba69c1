// The plan in a file, of which only the request survives when the step gets updates.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// `planned` is a graph that was planned, and whose original will be planned anew. Sets the plan of
// `o` to what the record says, the budget or the policy, and `o.ways` to those that the nodes show.
// Tells `o.note` so, and what cannot be taken over: a plan by hand, chunks and micro-batches.
void planAsOnRecord(const Graph &planned, CompileOptions &o);

} // namespace isthmus
