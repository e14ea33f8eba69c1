// The options of a step over several devices.
#pragma once

#include "tools/cli/options.h"

namespace CLI {
class App;
}

namespace isthmus {

// Where figures alone are asked for: a larger step over several devices is simulated, not built.
constexpr int64_t kMostNodesOfFigures = 100'000;

void addStageFlags(CLI::App &verb, PlanFlags &o);
// A machine's file; for verbs that do not run the step on it.
void addMachineFlag(CLI::App &verb, PlanFlags &o);
// Reads it, if one was given.
llvm::Error readMachineFlag(PlanFlags &o);
// Checks that involve several of them. Errors are usage errors.
llvm::Error checkStages(const PlanFlags &o);

} // namespace isthmus
