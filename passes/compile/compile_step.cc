#include "passes/compile/compile_step.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

static constexpr llvm::StringLiteral kNames[] = {"convert", "differentiate", "lower", "chunk",
                                                 "rewrite"};

llvm::ArrayRef<llvm::StringRef> compileStepNames() {
  static const llvm::SmallVector<llvm::StringRef, 5> names(std::begin(kNames), std::end(kNames));
  return names;
}

llvm::StringRef compileStepName(CompileStep s) { return kNames[size_t(s)]; }

std::optional<CompileStep> parseCompileStep(llvm::StringRef name) {
  const auto at = llvm::find(kNames, name);
  if (at == std::end(kNames))
    return std::nullopt;
  return CompileStep(at - std::begin(kNames));
}

} // namespace isthmus
