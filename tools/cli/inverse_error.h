// Plans whose inverses are accurate enough, measured on the first step.
#pragma once

#include "runtime/device.h"
#include "tools/cli/compiled.h"

namespace isthmus {

struct InverseCheck {
  double most = 1e-3; // as a share of the rebuilt value's largest element
  uint64_t seed = 0;
  const GivenInputs *inputs = nullptr; // others get their defaults
};

InverseCheck inverseCheck(const ModelOptions &model, const PlanFlags &plan,
                          const GivenInputs &inputs);

// Runs compiled(). If the plan has inverses and the device computes, runs the first step with and
// without them: values whose inverse is too inaccurate are excluded from inversion, and the plan is
// made again, until all are accurate. The errors of the remaining inverses go to `errors`, by name.
llvm::Expected<Compiled> compiledWithin(Graph g, CompileOptions o, Device &device,
                                        const InverseCheck &check, const std::string &reportPath,
                                        std::map<std::string, double> &errors);

} // namespace isthmus
