// The common beginning of the verbs that plan a training step.
#pragma once

#include "runtime/device.h"
#include "tools/cli/compiled.h"
#include "tools/cli/paths.h"

namespace isthmus {

struct StepToCompile {
  std::unique_ptr<Device> device; // for which the step is compiled
  Graph graph;                    // as the file has it
  CompileOptions options;
  GivenInputs given; // for its inputs
};

// What to do with a model that is not differentiated if neither the flags nor the file ask for a
// gradient: run its forward part alone, or fail, since there is nothing to plan.
enum class ForwardAlone : bool { Refused, Allowed };
// Whether --loss and --wrt are an error for a model that is differentiated. They are not where the
// command has another model too, for which they may be meant.
enum class LossOfStep : bool { Refused, Ignored };

// Checks the flags and the command's paths, then opens the device and loads the model.
llvm::Expected<StepToCompile> stepToCompile(const ModelOptions &model, const PlanFlags &plan,
                                            const std::string &device, CommandPaths &paths,
                                            ForwardAlone forward = ForwardAlone::Refused,
                                            LossOfStep loss = LossOfStep::Refused);

// Whether the forward part alone runs; a note says so. `step` holds the options of the flags.
bool runsForwardAlone(const ModelOptions &model, const PlanFlags &plan, const Graph &g,
                      const StepOptions &step);

} // namespace isthmus
