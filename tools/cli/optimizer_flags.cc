#include "tools/cli/optimizer_flags.h"

#include "tools/cli/exit.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <limits>

namespace isthmus {

constexpr double kAdamWDecay = 1e-2;

llvm::Error expectNumber(const char *option, const std::optional<double> &value, double least,
                         double below, const char *what) {
  if (!value || (std::isfinite(*value) && *value >= least && *value < below))
    return llvm::Error::success();
  return usageError("{0} expects {1}, got {2}", option, what, floatText(*value));
}

namespace {

std::optional<std::pair<double, double>> betasOf(const std::string &text) {
  auto [first, second] = llvm::StringRef(text).split(',');
  std::pair<double, double> betas;
  auto isShare = [](double d) { return d >= 0 && d < 1; };
  if (first.trim().getAsDouble(betas.first) || second.trim().getAsDouble(betas.second) ||
      !isShare(betas.first) || !isShare(betas.second))
    return std::nullopt;
  return betas;
}

llvm::Error checkNumbers(const OptimizerFlags &f) {
  constexpr double kAny = INFINITY, kLeast = std::numeric_limits<double>::min();
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
  return llvm::Error::success();
}

} // namespace

llvm::Error checkOptimizer(const OptimizerFlags &f) {
  const bool hasOthers =
      f.nesterov || f.momentum || f.epsilon || f.weightDecay || f.clipNorm || !f.betas.empty();
  if (f.optimizer.empty())
    return hasOthers ? usageError("options of an optimizer go with --optimizer, one of {0}",
                                  llvm::join(optimizerNames(), ", "))
                     : llvm::Error::success();
  auto kind = parseOptimizer(f.optimizer);
  if (!kind)
    return usageError("--optimizer expects one of {0}, got '{1}'{2}",
                      llvm::join(optimizerNames(), ", "), f.optimizer,
                      didYouMean(f.optimizer, optimizerNames()));
  if (llvm::Error e = checkNumbers(f))
    return e;
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

OptimizerOptions optimizerOf(const OptimizerFlags &f) {
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

} // namespace isthmus
