// Plans whose inverses are accurate enough, measured on the first step.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// As `planned` (planning.h). If the plan has inverses, runs the first step of `o.firstStep` with
// and without them: values whose inverse is too inaccurate are excluded from inversion, and the
// plan is made again, until all are accurate. Errors: those of `planned` and of the step.
llvm::Expected<Compiled> plannedAccurately(Graph given, CompileOptions o, const Target &target);

} // namespace isthmus
