// Loads the graph of a file.
#pragma once

#include "tools/cli/feeds.h"
#include "tools/cli/options.h"
#include "tools/cli/paths.h"

namespace isthmus {

// Loads the graph as the file has it. Notes go to the console. The tensors `given` for inputs
// decide sizes that the file leaves open. The files that the model names are added to the command's
// `paths`, which are then checked again.
llvm::Expected<Graph> loadModel(const ModelOptions &o, CommandPaths &paths,
                                const GivenInputs &given);

// A usage error if the graph is differentiated and flags ask to differentiate it.
llvm::Error checkDifferentiates(const Graph &g, const ModelOptions &o);

} // namespace isthmus
