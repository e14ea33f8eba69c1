#include "passes/compile/compile_step.h"

namespace isthmus {

static constexpr llvm::StringRef kNames[] = {"convert", "differentiate", "lower", "chunk",
                                             "rewrite"};

llvm::ArrayRef<llvm::StringRef> compileStepNames() { return kNames; }

llvm::StringRef compileStepName(CompileStep s) { return kNames[size_t(s)]; }

} // namespace isthmus
