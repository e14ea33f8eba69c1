// Runs the steps of a training run.
#pragma once

#include "runtime/session.h"
#include "tools/cli/interrupt.h"
#include "tools/train/inverse_watch.h"
#include "tools/train/learning_rate.h"

namespace isthmus {

struct TrainerOptions {
  LearningRate rate; // with the steps of the whole run
  int64_t levels = 0;
  std::string save;      // the path of checkpoints; empty: none
  int64_t saveEvery = 0; // steps; 0: at the end of each epoch
};

// Notes Ctrl-C while it lives.
class Trainer {
public:
  // All arguments must outlive the trainer. `watch` may replace `step`; `evaluator` may be null.
  Trainer(TrainedStep &step, InverseWatch &watch, const Dataset &data, const Evaluator *evaluator,
          const TrainerOptions &o)
      : step_(step), watch_(watch), data_(data), evaluator_(evaluator), o_(o) {}

  // Trains from `state` to the last step, on a device that computes. Checkpoints are saved at
  // intervals, at the end, and when Ctrl-C ends the run, which is an Interrupted error. Errors: a
  // loss that is not a number, after which nothing is saved; errors of devices and files.
  llvm::Error run(RunState &state, TrainReport &report);

private:
  const Graph &graph() const { return step_.compiled.graph; }
  Session &session() { return *step_.session; }
  llvm::Error feed(const RunState &state, Shuffle &shuffle);
  llvm::Expected<double> step(const RunState &state);
  llvm::Error recordOutputs(TrainReport &report);
  llvm::Error finishStep(RunState &state, TrainReport &report);
  llvm::Error evaluate(const RunState &state, TrainReport &report);
  llvm::Error save(const RunState &state);
  llvm::Error notFinite(const RunState &state, double loss);
  llvm::Expected<bool> leavesOutAllLabels();
  llvm::Error interrupted(const RunState &state);

  TrainedStep &step_;
  InverseWatch &watch_;
  const Dataset &data_;
  const Evaluator *evaluator_;
  const TrainerOptions &o_;
  int64_t savedStep_ = -1; // the last step that this run saved
  InterruptNoted interrupt_;
};

} // namespace isthmus
