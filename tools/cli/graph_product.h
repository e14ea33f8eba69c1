// The common beginning of the verbs that make a graph from a model.
#pragma once

#include "tools/cli/compiled.h"

namespace isthmus {

struct LoadedModel {
  Graph graph; // as the file has it
  CompileOptions options;
};
// Checks the flags and the command's files, then loads the model.
llvm::Expected<LoadedModel> loadForProduct(const ModelOptions &model, const GraphProduct &product);

} // namespace isthmus
