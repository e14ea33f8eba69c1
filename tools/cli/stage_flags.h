// The options of a step over several devices.
#pragma once

#include "tools/cli/options.h"

namespace CLI {
class App;
}

namespace isthmus {

void addStageFlags(CLI::App &verb, PlanFlags &o);
// A machine's file; for verbs that do not run the step on it.
void addMachineFlag(CLI::App &verb, PlanFlags &o);
// Reads it, if one was given.
llvm::Error readMachineFlag(PlanFlags &o);
// Checks that involve several of them. Errors are usage errors.
llvm::Error checkStages(const PlanFlags &o);

} // namespace isthmus
