// A page of a step over several devices: a step for each of them, over one time.
#pragma once

#include "tools/view/page.h"
#include "tools/view/step_by_place.h"

namespace isthmus {

// Errors: a node that the target cannot run.
llvm::Error addPlaces(Page &page, const StepByPlace &steps, const Figures &figures,
                      const Target &target);

} // namespace isthmus
