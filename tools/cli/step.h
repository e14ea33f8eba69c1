// What the verbs that plan a training step begin with.
#pragma once

#include "ir/graph.h"
#include "runtime/device.h"
#include "tools/cli/options.h"
#include "tools/cli/paths.h"

namespace isthmus {

struct StepToPlan {
  std::unique_ptr<Device> device; // that sizes and workspaces are meant for
  Graph graph;                    // differentiated
  PlanOptions plan;               // with the model's seed
};

// Checks the options and the command's paths, then opens the device and loads the model.
llvm::Expected<StepToPlan> stepToPlan(const ModelOptions &model, const PlanOptions &plan,
                                      const std::string &device, CommandPaths &paths);

} // namespace isthmus
