// From a forward graph to a training step: mode, loss and gradients.
#pragma once

#include "passes/differentiate/loss.h"

namespace isthmus {

// The values to differentiate by.
struct Wrt {
  enum class Kind : uint8_t { Params, Inputs, All, Named };
  Kind kind = Kind::Params;
  std::string names; // for Named: a list as matchValues takes it
};

// "params" or nothing, "inputs", "all", or a list of names.
Wrt parseWrt(llvm::StringRef text);

struct StepOptions {
  std::optional<LossOptions> loss; // none: the graph's own loss
  Wrt wrt;
  // Whether the model's outputs stay outputs of a step whose loss is of a kind. Otherwise they die
  // at their last use: such a step has its loss, gradients and new states.
  bool keepsOutputs = false;
  ModeSource mode = ModeSource::Rule;
  // Batch norms take the statistics of each of so many equal parts of the examples (micro_norms.h);
  // 0: of all of them.
  int64_t normParts = 0;
  NoteSink note; // receives remarks on choices that the options leave to a rule; may be empty
};

// Whether the options or the graph name a loss.
bool hasLoss(const Graph &g, const StepOptions &o);

// Adds the loss and the gradients as outputs to a forward graph, in training mode unless `mode`
// says otherwise. With a loss of a kind (not LossKind::Value), they replace the model's own outputs
// unless `keepsOutputs`. A graph that has gradients already is returned unchanged. Errors: no loss;
// a loss or values to differentiate by that the graph lacks; an op without a gradient; no gradient
// that reaches any of the values to differentiate by.
llvm::Expected<Graph> trainingStep(Graph g, const StepOptions &o);

// The two parts of trainingStep, for callers that differentiate again. The first: a forward graph
// in training mode, unless `mode` says otherwise;
Graph inTrainingMode(Graph g, const StepOptions &o);
// the second: appends the gradients of the loss as outputs, to any graph without clones.
llvm::Error differentiateLoss(Graph &g, const StepOptions &o);

// Notes which of `xs` no gradient of `ys` reaches, whose `grads` are null. `option` names xs.
void noteUnreached(const Graph &g, llvm::ArrayRef<ValueId> ys, llvm::ArrayRef<ValueId> xs,
                   llvm::ArrayRef<ValueId> grads, const char *option, const NoteSink &note);

// The mode of batch norm and dropout in the graph, for reports: "train", "eval" or "as-written".
llvm::StringRef modeText(const Graph &g);

} // namespace isthmus
