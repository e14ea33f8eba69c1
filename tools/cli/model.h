// From a file to the graph that a verb works on.
#pragma once

#include "ir/constant_folder.h"
#include "ir/graph.h"
#include "ir/target.h"
#include "tools/cli/feeds.h"
#include "tools/cli/options.h"
#include "tools/cli/paths.h"

namespace isthmus {

// The graph as the file has it, in the precision asked for, and with --eval for inference. Notes go
// to the console. What is `given` to inputs decides sizes that the file leaves to the run. The
// files that the model names are added to the command's `paths`, which are then checked again.
llvm::Expected<Graph> loadModel(const ModelOptions &o, CommandPaths &paths,
                                const GivenInputs &given);

// Whether a forward graph is to be differentiated: a loss is asked for, or the file names one.
bool hasLoss(const Graph &g, const ModelOptions &o);

// A forward graph with its loss and gradient outputs, in training unless --eval or --as-written
// says otherwise; one that is differentiated comes back as it is, and options that would change
// that are usage errors. A forward graph without a loss, given or named, is an error.
llvm::Expected<Graph> differentiated(Graph g, const ModelOptions &o, const GivenInputs &given);

// A graph that is to be differentiated, in that mode: one that is already stays as it is.
Graph inTrainingMode(Graph g, const ModelOptions &o);

// What batch norm and dropout do in the graph, for reports: `train`, `eval` or `as-written`.
std::string modeOf(const Graph &g);

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
// outputs. On any graph. An error where no gradient reaches any of these.
llvm::Error differentiateLoss(Graph &g, const ModelOptions &o, const GivenInputs &given);

// The values that --wrt names.
llvm::Expected<std::vector<ValueId>> wrtValues(const Graph &g, llvm::StringRef wrt);

} // namespace isthmus
