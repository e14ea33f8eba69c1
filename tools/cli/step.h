// What the verbs that plan a training step begin with.
#pragma once

#include "runtime/device.h"
#include "tools/cli/compiled.h"
#include "tools/cli/paths.h"

namespace isthmus {

struct StepToCompile {
  std::unique_ptr<Device> device; // that sizes and workspaces are meant for
  Graph graph;                    // as the file has it
  CompileOptions options;
  GivenInputs given; // for its inputs
};

// Checks the flags and the command's paths, then opens the device and loads the model.
llvm::Expected<StepToCompile> stepToCompile(const ModelOptions &model, const PlanFlags &plan,
                                            const std::string &device, CommandPaths &paths);

} // namespace isthmus
