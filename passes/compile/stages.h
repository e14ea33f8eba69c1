// Plans a step over several devices: micro-batches, stages, an order, and a plan for each device.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// Whether the options ask for stages, or the graph has nodes on several devices.
bool hasStages(const Graph &g, const CompileOptions &o);

// `given` is differentiated and lowered. Its clones and messages are dropped and it is planned
// anew, unless the plan choice keeps them and no option asks for other stages. Errors: NotWithin,
// those of cutIntoStages and inMicroBatches, and ways that stages do not have.
llvm::Expected<Compiled> plannedInStages(Graph given, const CompileOptions &o,
                                         const Target &target);

} // namespace isthmus
