// The figures that a training run reports beside those of a step.
#pragma once

#include "tools/cli/compiled.h"
#include "tools/train/checkpoint.h"
#include "tools/train/evaluator.h"

namespace isthmus {

struct TrainReport : Report {
  explicit TrainReport(const Figures &f) : Report(f) {}

  std::string optimizer;
  // Bytes of the optimizer's state and of all gradients; whether all gradients are live at once
  // before the first update (clipping by their norm).
  int64_t optimizerBytes = 0, gradientBytes = 0;
  bool holdsAllGradients = false;
  int64_t examples = 0, batch = 0;
  int64_t firstStep = 0;                              // of this run; above 0 if it was resumed
  std::vector<double> learningRate, bitsPerDimension; // by step, as `loss`
  // Scalar outputs by name, without the loss: one number for each step.
  std::map<std::string, std::vector<double>> outputs;
  std::vector<Evaluation> evaluations;
  // The errors of inverses: after how many steps they were measured, the largest one and its value.
  struct InverseError {
    int64_t step = 0;
    double error = 0;
    std::string value;
  };
  std::vector<InverseError> inverseErrorsByStep; // empty if they were not measured
  std::vector<NotInverted> notInverted;          // values that the run no longer inverts
  int64_t measuringArenaBytes = 0;               // of the step that measures them

  // Adds the largest of these errors, if there are any.
  void addInverseErrors(int64_t step, const std::map<std::string, double> &errors);
  const InverseError *largestInverseError() const; // null if none was measured
  int64_t evaluationArenaBytes = 0;
};

// Writes it whole or not at all; an empty path writes nothing.
llvm::Error writeTrainReport(const TrainReport &r, const std::string &path);

} // namespace isthmus
