#include "tools/cli/graph_product.h"

#include "tools/cli/model.h"
#include "tools/cli/output.h"

namespace isthmus {

llvm::Expected<LoadedModel> loadForProduct(const ModelOptions &model, const GraphProduct &product) {
  if (llvm::Error e = checkOptions(model))
    return e;
  if (llvm::Error e = checkGraphPath(product.output, product.weights))
    return e;
  auto given = readInputs(model.inputs);
  if (!given)
    return given.takeError();
  CommandPaths paths;
  paths.reads("MODEL", model.model);
  addGraphPaths(paths, product.output, product.weights);
  if (llvm::Error e = paths.check())
    return e;
  auto g = loadModel(model, paths, *given);
  if (!g)
    return g.takeError();
  auto options = compileOptions(model, {}, *given);
  if (!options)
    return options.takeError();
  return LoadedModel{std::move(*g), std::move(*options)};
}

} // namespace isthmus
