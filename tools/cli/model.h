// From a file to the graph that it holds.
#pragma once

#include "tools/cli/feeds.h"
#include "tools/cli/options.h"
#include "tools/cli/paths.h"

namespace isthmus {

// The graph as the file has it. Notes go to the console. What is `given` to inputs decides sizes
// that the file leaves to the run. The files that the model names are added to the command's
// `paths`, which are then checked again.
llvm::Expected<Graph> loadModel(const ModelOptions &o, CommandPaths &paths,
                                const GivenInputs &given);

// A usage error if the graph is differentiated and flags ask to differentiate it.
llvm::Error checkDifferentiates(const Graph &g, const ModelOptions &o);

} // namespace isthmus
