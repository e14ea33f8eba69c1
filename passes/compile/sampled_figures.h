// The figures of a step over several devices that is too large to be built.
#pragma once

#include "passes/compile/divided_step.h"

namespace isthmus {

// Whether the step of an original is only simulated, as CompileOptions::mostNodes says.
bool isOnlySimulated(const Graph &original, const CompileOptions &o);

// The figures of the step, simulated from a few of its micro-batches (sampled_step.h). The largest
// sums of live bytes stand for arenas. None if micro-batches depend on one another in a way that a
// few do not show. Errors: NotWithin, and those of dividedStep.
llvm::Expected<std::optional<Figures>> sampledFigures(const Graph &original,
                                                      const CompileOptions &o,
                                                      const Target &target, CutAgain &again);

} // namespace isthmus
