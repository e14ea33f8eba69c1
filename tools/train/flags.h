// The options of `isthmus train` as typed, and their conversion.
#pragma once

#include "tools/cli/optimizer_flags.h"
#include "tools/train/trainer.h"

namespace isthmus {

struct TrainFlags {
  ModelOptions model;
  PlanFlags plan;
  std::string data, evalData, memory, device = "cpu", save, resume, report;
  OptimizerFlags optimizer = {.optimizer = "adam"};
  std::string schedule = "constant";
  std::optional<double> rate;
  int64_t warmup = 0, levels = 0, saveEvery = 0;
  int64_t measureInverses = 100; // steps; 0: on the first step alone
  std::optional<int64_t> steps, epochs;
};

// Checks options against each other, and turns --memory into plan options. Errors are usage errors.
llvm::Error settle(TrainFlags &f);

// The flags must have been settled. `stepsPerEpoch` is that of the data set; an error if the warmup
// is longer than the run.
llvm::Expected<TrainerOptions> trainerOptions(const TrainFlags &f, int64_t stepsPerEpoch);

} // namespace isthmus
