// From a file to the graph that a verb works on.
#pragma once

#include "ir/constant_folder.h"
#include "ir/graph.h"
#include "ir/target.h"
#include "tools/cli/feeds.h"
#include "tools/cli/options.h"
#include "tools/cli/paths.h"

namespace isthmus {

// The graph as the file has it, in the mode and precision asked for. Notes go to the console. What
// is `given` to inputs decides sizes that the file leaves to the run. The files that the model
// names are added to the command's `paths`, which are then checked again.
llvm::Expected<Graph> loadModel(const ModelOptions &o, CommandPaths &paths,
                                const GivenInputs &given = {});

// A forward graph with its loss and gradient outputs; one that is differentiated comes back as it
// is, and options that would change that are usage errors. A forward graph without a loss, given or
// named, is an error.
llvm::Expected<Graph> differentiated(Graph g, const ModelOptions &o);

// The ways to compute a graph among which a target's own is chosen, before anything is planned.
// Results differ in rounding alone.
struct Form {
  bool fusesBias = false;
  llvm::ArrayRef<DType> channelsLast; // where convolutions are of one of these types
};
Form formFor(const ModelOptions &o, const Target &target); // refers to the target

// Whether a plan decided the graph's order or clones. Such a graph stays in the form it was made
// in, which its file has on record.
bool wasPlanned(const Graph &g);
Form formOf(const Graph &g);

// The graph in that form; one that was planned comes back as it is.
Graph inForm(Graph g, const Form &form);
// In the form for the target.
Graph lowered(Graph g, const ModelOptions &o, const Target &target);

// Appends the gradients of the loss that --loss gives, or the graph names, by what --wrt says, as
// outputs. On any graph.
llvm::Error differentiateLoss(Graph &g, const ModelOptions &o);

// The values that --wrt names.
llvm::Expected<std::vector<ValueId>> wrtValues(const Graph &g, llvm::StringRef wrt);

} // namespace isthmus
