#include "passes/compile/inverted.h"

#include "passes/names.h"
#include "passes/rewrite/original.h"

namespace isthmus {

llvm::Expected<Graph> inverted(Graph given, const CompileOptions &o, llvm::StringRef ys,
                               llvm::StringRef xs, size_t iterations) {
  CompileOptions asForward = o;
  asForward.differentiates = false;
  auto ready = prepared(std::move(given), asForward);
  if (!ready)
    return ready;
  const Graph g = originalOf(*ready);
  auto from = matchValues(g, ys), to = matchValues(g, xs);
  if (!from || !to)
    return llvm::joinErrors(from.takeError(), to.takeError());
  return inverseOf(g, *from, *to, iterations);
}

} // namespace isthmus
