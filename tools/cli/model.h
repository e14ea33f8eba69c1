// From a file to the graph that a verb works on.
#pragma once

#include "ir/constant_folder.h"
#include "ir/graph.h"
#include "tools/cli/feeds.h"
#include "tools/cli/options.h"

namespace isthmus {

// The graph as the file has it, in the mode and precision asked for. Notes go to the console. What
// is `given` to inputs decides sizes that the file leaves to the run.
llvm::Expected<Graph> loadModel(const ModelOptions &o, const GivenInputs &given = {});

// A forward graph with its loss and gradient outputs; one that is differentiated comes back as it
// is, and options that would change that are usage errors. A forward graph without a loss, given or
// named, is an error.
llvm::Expected<Graph> differentiated(Graph g, const ModelOptions &o);

// Appends the gradients of the loss that --loss gives, or the graph names, by what --wrt says, as
// outputs. On any graph.
llvm::Error differentiateLoss(Graph &g, const ModelOptions &o);

// The values that --wrt names.
llvm::Expected<std::vector<ValueId>> wrtValues(const Graph &g, llvm::StringRef wrt);

} // namespace isthmus
