// Optimizer flags as typed, and their conversion.
#pragma once

#include "passes/train/updates.h"
#include "tools/cli/options.h"

namespace isthmus {

struct OptimizerFlags {
  std::string optimizer, betas; // no optimizer: empty
  bool nesterov = false;
  std::optional<double> momentum, epsilon, weightDecay, clipNorm;

  bool isSgd() const { return parseOptimizer(optimizer) == OptimizerOptions::Sgd; }
};

// Errors are usage errors.
llvm::Error checkOptimizer(const OptimizerFlags &f);
OptimizerOptions optimizerOf(const OptimizerFlags &f); // the flags must have been checked

// A usage error, if the number exists and is not in [least, below).
llvm::Error expectNumber(const char *option, const std::optional<double> &value, double least,
                         double below, const char *what);

} // namespace isthmus
