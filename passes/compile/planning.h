// The last part of the road: problem, plan, rewrite and layout.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// `given` is as it is to be computed. Clones in it are dropped and planned anew, unless the choice
// is to keep them. Errors: NotWithin; what policies, the problem and the placement say.
llvm::Expected<Compiled> planned(Graph given, const CompileOptions &o, const Target &target);

} // namespace isthmus
