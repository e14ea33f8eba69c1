// A picture of the simulated schedule of a step: what each device does and holds over the time.
#pragma once

#include "passes/compile/figures.h"
#include "tools/view/step_by_place.h"

namespace isthmus {

// SVG that needs no other file; it is dark where the reader's pages are. Errors: a node that the
// target cannot run.
llvm::Expected<std::string> scheduleSvg(const StepByPlace &steps, const Figures &figures,
                                        const Target &target);

} // namespace isthmus
