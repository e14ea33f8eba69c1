// The options of a step over several devices.
#pragma once

#include "tools/cli/options.h"

namespace CLI {
class App;
}

namespace isthmus {

void addStageFlags(CLI::App &verb, PlanFlags &o);
// Checks that involve several of them. Errors are usage errors.
llvm::Error checkStages(const PlanFlags &o);

} // namespace isthmus
