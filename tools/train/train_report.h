// What a training run reports beside what a step does.
#pragma once

#include "tools/cli/compiled.h"
#include "tools/train/evaluator.h"

namespace isthmus {

struct TrainReport : Report {
  explicit TrainReport(const Figures &f) : Report(f) {}

  std::string optimizer;
  // Of the optimizer's state; of all gradients; and whether these are all there at once, before the
  // first update (clipping by their norm).
  int64_t optimizerBytes = 0, gradientBytes = 0;
  bool holdsAllGradients = false;
  int64_t examples = 0, batch = 0;
  int64_t firstStep = 0; // of this run; more than 0 where it goes on from a checkpoint
  std::vector<double> learningRate, bitsPerDimension; // by step, as `loss`
  // Outputs of one number, by name: one figure a step, as `loss`, which is not among them.
  std::map<std::string, std::vector<double>> outputs;
  std::vector<Evaluation> evaluations;
  int64_t evaluationArenaBytes = 0;
};

// Writes it whole or not at all; an empty path writes nothing.
llvm::Error writeTrainReport(const TrainReport &r, const std::string &path);

} // namespace isthmus
