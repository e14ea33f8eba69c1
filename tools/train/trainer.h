// The steps of a training run.
#pragma once

#include "tools/cli/interrupt.h"
#include "tools/train/checkpoint.h"
#include "tools/train/learning_rate.h"
#include "tools/train/train_report.h"

namespace isthmus {

struct TrainerOptions {
  LearningRate rate; // with the steps of the whole run
  int64_t levels = 0;
  std::string save;      // where checkpoints go; empty: nowhere
  int64_t saveEvery = 0; // steps; 0: at the end of each epoch
};

// While one lives, Ctrl-C is noted.
class Trainer {
public:
  // All must outlive the trainer. `rate` is the input of `c` that is fed the learning rate;
  // `evaluator` may be null.
  Trainer(const Compiled &c, Executor &e, ValueId rate, const Dataset &data,
          const Evaluator *evaluator, const TrainerOptions &o)
      : c_(c), e_(e), rate_(rate), data_(data), evaluator_(evaluator), o_(o) {}

  // From where `state` is to the last step, on a device that computes. What the graph carries is
  // saved now and then, at the end, and where Ctrl-C ends the run, which is an error of that kind.
  // Errors: a loss that is no number, after which nothing is saved; what devices and files say.
  llvm::Error run(RunState &state, TrainReport &report);

private:
  llvm::Expected<double> step(const RunState &state, Shuffle &shuffle);
  llvm::Error recordOutputs(TrainReport &report);
  llvm::Error finishStep(RunState &state, TrainReport &report);
  llvm::Error evaluate(const RunState &state, TrainReport &report);
  llvm::Error save(const RunState &state);
  llvm::Error notFinite(const RunState &state, double loss) const;
  llvm::Error interrupted(const RunState &state);

  const Compiled &c_;
  Executor &e_;
  const ValueId rate_;
  const Dataset &data_;
  const Evaluator *evaluator_;
  const TrainerOptions &o_;
  int64_t savedStep_ = -1; // the last that this run saved
  InterruptNoted interrupt_;
};

} // namespace isthmus
