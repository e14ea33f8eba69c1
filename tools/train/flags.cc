#include "tools/train/flags.h"

#include "tools/cli/budget.h"
#include "tools/cli/exit.h"
#include "tools/cli/memory_mode.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace isthmus {
namespace {

constexpr int64_t kUsualEpochs = 10;
constexpr double kAdamRate = 1e-3, kSgdRate = 1e-2;

llvm::Error checkNumbers(const TrainFlags &f) {
  if (llvm::Error e = expectNumber("--lr", f.rate, 0, INFINITY, "a rate from 0 on"))
    return e;
  if (f.warmup < 0)
    return usageError("--warmup expects a number of steps, from 0 on, got {0}", f.warmup);
  if (f.levels != 0 && f.levels < 2)
    return usageError("--levels expects the number of different input values, 2 or more, got {0}",
                      f.levels);
  if (f.measureInverses < 0)
    return usageError(
        "--measure-inverses expects a number of steps, or 0 for the first step alone, "
        "got {0}",
        f.measureInverses);
  return llvm::Error::success();
}

llvm::Error checkRun(const TrainFlags &f) {
  if (f.steps && f.epochs)
    return usageError("--steps and --epochs both say how long the run is; give one of them");
  if (!parseSchedule(f.schedule))
    return usageError("--lr-schedule expects one of {0}, got '{1}'{2}",
                      llvm::join(scheduleNames(), ", "), f.schedule,
                      didYouMean(f.schedule, scheduleNames()));
  if (f.saveEvery > 0 && f.save.empty())
    return usageError("--save-every says when to save; give --save=W.safetensors with it");
  if (!f.resume.empty() && !f.model.load.empty())
    return usageError("--resume takes parameters and running averages from '{0}', and --load from "
                      "'{1}'; leave out --load to continue the run, or --resume to begin one",
                      f.resume, f.model.load);
  return llvm::Error::success();
}

llvm::Error settleMemory(TrainFlags &f) {
  if (f.memory.empty())
    return llvm::Error::success();
  if (f.plan.isChosen() || f.plan.memoryLimit)
    return usageError("--memory and --policy, --checkpoints, --budget and --memory-limit are ways "
                      "to say how much memory to take; give one of them");
  if (f.memory == "constant" && !f.plan.allow.empty() && !f.plan.allows(kInvertWay))
    return usageError("--memory=constant rebuilds values by inverses, and --allow={0} does without "
                      "them; leave out --allow, or give --memory=min with it",
                      llvm::join(f.plan.allow, ","));
  if (setMemoryMode(f.plan, f.memory))
    return llvm::Error::success();
  auto budget = budgetOption(f.memory, "--memory");
  if (!budget)
    return addNote(budget.takeError(), "--memory also takes linear, sqrt and constant");
  f.plan.budget = *budget;
  return llvm::Error::success();
}

} // namespace

llvm::Error settle(TrainFlags &f) {
  if (llvm::Error e = checkNumbers(f))
    return e;
  if (llvm::Error e = checkOptimizer(f.optimizer))
    return e;
  if (llvm::Error e = checkRun(f))
    return e;
  return settleMemory(f);
}

llvm::Expected<TrainerOptions> trainerOptions(const TrainFlags &f, int64_t stepsPerEpoch) {
  TrainerOptions o;
  o.rate.most = f.rate.value_or(f.optimizer.isSgd() ? kSgdRate : kAdamRate);
  o.rate.schedule = *parseSchedule(f.schedule);
  o.rate.warmup = f.warmup;
  o.rate.steps = f.steps ? *f.steps : f.epochs.value_or(kUsualEpochs) * stepsPerEpoch;
  if (o.rate.warmup > o.rate.steps)
    return usageError("--warmup expects {0} steps at most, all of the run, got {1}", o.rate.steps,
                      f.warmup);
  o.levels = f.levels;
  o.save = f.save;
  o.saveEvery = f.saveEvery;
  return o;
}

} // namespace isthmus
