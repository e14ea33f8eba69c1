// Plans whose inverses are near enough to what they stand for, measured on the first step.
#pragma once

#include "runtime/device.h"
#include "tools/cli/compiled.h"

namespace isthmus {

struct InverseCheck {
  double most = 1e-3; // of the largest element of what is rebuilt
  uint64_t seed = 0;
  const GivenInputs *inputs = nullptr; // others get their defaults
};

InverseCheck inverseCheck(const ModelOptions &model, const PlanFlags &plan,
                          const GivenInputs &inputs);

// compiled(), and where the plan has inverses and the device computes, both ways are run on the
// first step: what is rebuilt too far from what it was is not inverted, and the plan made again,
// until none is. The errors of those that are left go to `errors`, by name.
llvm::Expected<Compiled> compiledWithin(Graph g, CompileOptions o, Device &device,
                                        const InverseCheck &check, const std::string &reportPath,
                                        std::map<std::string, double> &errors);

} // namespace isthmus
