// The last steps of compile(): problem, plan, rewrite and layout.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// `given` is differentiated and lowered. Its clones are dropped and planned anew, unless the plan
// choice keeps them. Errors: NotWithin, and the errors of policies, extractProblem and place.
llvm::Expected<Compiled> planned(Graph given, const CompileOptions &o, const Target &target);

} // namespace isthmus
