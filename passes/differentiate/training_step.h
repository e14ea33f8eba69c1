// From a forward graph to a training step: mode, loss and gradients.
#pragma once

#include "passes/differentiate/loss.h"

namespace isthmus {

// What to differentiate by.
struct Wrt {
  enum class Kind : uint8_t { Params, Inputs, All, Named };
  Kind kind = Kind::Params;
  std::string names; // of Named: a list as matchValues takes it
};

struct StepOptions {
  std::optional<LossOptions> loss; // none: the value that the graph names
  Wrt wrt;
  ModeSource mode = ModeSource::Rule;
  NoteSink note; // is told what the options leave to a rule; may be empty
};

// Whether there is something to differentiate: a loss is given, or the graph names one.
bool hasLoss(const Graph &g, const StepOptions &o);

// A forward graph with its loss and its gradients as outputs, in training unless `mode` says
// otherwise. One that is differentiated comes back as it is. Errors: no loss; a loss or values to
// differentiate by that the graph lacks; an op without a gradient; no gradient that reaches any.
llvm::Expected<Graph> trainingStep(Graph g, const StepOptions &o);

// The parts of that, for whoever differentiates again:
// a forward graph whose layers train, unless `mode` says otherwise;
Graph inTrainingMode(Graph g, const StepOptions &o);
// gradients of the loss appended as outputs, to any graph without clones.
llvm::Error differentiateLoss(Graph &g, const StepOptions &o);

// What batch norm and dropout do in the graph, for reports: "train", "eval" or "as-written".
llvm::StringRef modeText(const Graph &g);

} // namespace isthmus
