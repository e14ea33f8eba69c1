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
constexpr double kAdamRate = 1e-3, kSgdRate = 1e-2, kAdamWDecay = 1e-2;

llvm::Error expectNumber(const char *option, const std::optional<double> &value, double least,
                         double below, const char *what) {
  if (!value || (std::isfinite(*value) && *value >= least && *value < below))
    return llvm::Error::success();
  return usageError("{0} expects {1}, got {2}", option, what, floatText(*value));
}

std::optional<std::pair<double, double>> betasOf(const std::string &text) {
  auto [first, second] = llvm::StringRef(text).split(',');
  std::pair<double, double> betas;
  auto isShare = [](double d) { return d >= 0 && d < 1; };
  if (first.trim().getAsDouble(betas.first) || second.trim().getAsDouble(betas.second) ||
      !isShare(betas.first) || !isShare(betas.second))
    return std::nullopt;
  return betas;
}

llvm::Error checkNumbers(const TrainFlags &f) {
  constexpr double kAny = INFINITY, kLeast = std::numeric_limits<double>::min();
  if (llvm::Error e = expectNumber("--lr", f.rate, 0, kAny, "a rate from 0 on"))
    return e;
  if (llvm::Error e = expectNumber("--momentum", f.momentum, 0, 1, "a share in [0, 1)"))
    return e;
  if (llvm::Error e = expectNumber("--eps", f.epsilon, 0, kAny, "a number from 0 on"))
    return e;
  if (llvm::Error e = expectNumber("--weight-decay", f.weightDecay, 0, kAny, "a number from 0 on"))
    return e;
  if (llvm::Error e = expectNumber("--clip-norm", f.clipNorm, kLeast, kAny, "a norm above 0"))
    return e;
  if (!f.betas.empty() && !betasOf(f.betas))
    return usageError("--betas expects two shares in [0, 1), such as 0.9,0.999, got '{0}'",
                      f.betas);
  if (f.warmup < 0)
    return usageError("--warmup expects a number of steps, from 0 on, got {0}", f.warmup);
  if (f.levels != 0 && f.levels < 2)
    return usageError("--levels expects how many different numbers there are, 2 or more, got {0}",
                      f.levels);
  return llvm::Error::success();
}

llvm::Error checkOptimizer(const TrainFlags &f) {
  auto kind = parseOptimizer(f.optimizer);
  if (!kind)
    return usageError("--optimizer expects one of {0}, got '{1}'{2}",
                      llvm::join(optimizerNames(), ", "), f.optimizer,
                      didYouMean(f.optimizer, optimizerNames()));
  const bool isSgd = *kind == OptimizerOptions::Sgd;
  if (!isSgd && (f.momentum || f.nesterov))
    return usageError("--momentum and --nesterov are for --optimizer=sgd; {0} has --betas",
                      f.optimizer);
  if (isSgd && (!f.betas.empty() || f.epsilon))
    return usageError("--betas and --eps are for --optimizer=adam or adamw; sgd has --momentum");
  if (f.nesterov && f.momentum.value_or(0) == 0)
    return usageError("--nesterov is a form of momentum; give --momentum=0.9 or another with it");
  return llvm::Error::success();
}

llvm::Error checkRun(const TrainFlags &f) {
  if (f.steps && f.epochs)
    return usageError("--steps and --epochs both say how long the run is; give one of them");
  if (!parseSchedule(f.schedule))
    return usageError("--schedule expects one of {0}, got '{1}'{2}",
                      llvm::join(scheduleNames(), ", "), f.schedule,
                      didYouMean(f.schedule, scheduleNames()));
  if (f.saveEvery > 0 && f.save.empty())
    return usageError("--save-every says when to save; give --save=W.safetensors with it");
  return llvm::Error::success();
}

llvm::Error settleMemory(TrainFlags &f) {
  if (f.memory.empty())
    return llvm::Error::success();
  if (f.plan.any())
    return usageError("--memory and --policy, --checkpoints, --budget and --memory-limit are ways "
                      "to say how much memory to take; give one of them");
  if (setMemoryMode(f.plan, f.memory))
    return llvm::Error::success();
  auto budget = parseBudget(f.memory, "--memory");
  if (!budget)
    return addNote(budget.takeError(), "--memory also takes linear, sqrt and constant");
  f.plan.budget = f.memory;
  return llvm::Error::success();
}

} // namespace

llvm::Error settle(TrainFlags &f) {
  if (llvm::Error e = checkNumbers(f))
    return e;
  if (llvm::Error e = checkOptimizer(f))
    return e;
  if (llvm::Error e = checkRun(f))
    return e;
  return settleMemory(f);
}

OptimizerOptions optimizerOf(const TrainFlags &f) {
  OptimizerOptions o;
  o.kind = *parseOptimizer(f.optimizer);
  o.momentum = f.momentum.value_or(0);
  o.nesterov = f.nesterov;
  if (auto betas = betasOf(f.betas))
    std::tie(o.beta1, o.beta2) = *betas;
  o.epsilon = f.epsilon.value_or(o.epsilon);
  o.weightDecay = f.weightDecay.value_or(o.kind == OptimizerOptions::AdamW ? kAdamWDecay : 0);
  o.clipNorm = f.clipNorm;
  return o;
}

llvm::Expected<TrainerOptions> trainerOptions(const TrainFlags &f, int64_t stepsPerEpoch) {
  TrainerOptions o;
  const bool isSgd = *parseOptimizer(f.optimizer) == OptimizerOptions::Sgd;
  o.rate.most = f.rate.value_or(isSgd ? kSgdRate : kAdamRate);
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
