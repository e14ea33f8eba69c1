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

// What becomes of a model that is not differentiated, where nothing that was typed or that the file
// names asks for a gradient: its forward part alone, or an error, since there is nothing to plan.
enum class ForwardAlone : bool { Refused, Allowed };

// Checks the flags and the command's paths, then opens the device and loads the model.
llvm::Expected<StepToCompile> stepToCompile(const ModelOptions &model, const PlanFlags &plan,
                                            const std::string &device, CommandPaths &paths,
                                            ForwardAlone forward = ForwardAlone::Refused);

// Whether the forward part alone runs, which a note says. `step` is what the flags ask for.
bool runsForwardAlone(const ModelOptions &model, const PlanFlags &plan, const Graph &g,
                      const StepOptions &step);

} // namespace isthmus
