// An optimizer as it was typed, and as what it means.
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
OptimizerOptions optimizerOf(const OptimizerFlags &f); // of flags that were checked

// A usage error, unless the number is missing or in [least, below).
llvm::Error expectNumber(const char *option, const std::optional<double> &value, double least,
                         double below, const char *what);

} // namespace isthmus
