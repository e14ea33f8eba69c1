#include "tools/cli/step.h"

#include "tools/cli/devices.h"
#include "tools/cli/first_step.h"
#include "tools/cli/model.h"
#include "tools/cli/processes.h"
#include "tools/cli/stage_flags.h"

namespace isthmus {

bool runsForwardAlone(const ModelOptions &model, const PlanFlags &plan, const Graph &g,
                      const StepOptions &step) {
  if (g.hasBackward() || hasLoss(g, step) || !model.wrt.empty() || plan.plans())
    return false;
  Console::get().note(
      "no loss is given (--loss) or named in the file: the forward part alone runs, " +
      std::string(model.eval ? "for inference" : "as written"));
  return true;
}

llvm::Expected<StepToCompile> stepToCompile(const ModelOptions &model, const PlanFlags &plan,
                                            const std::string &deviceName, CommandPaths &paths,
                                            ForwardAlone forward, LossOfStep loss) {
  if (llvm::Error e = checkOptions(model))
    return e;
  if (llvm::Error e = checkOptions(plan))
    return e;
  paths.reads("MODEL", model.model);
  paths.reads("--costs", plan.costs);
  paths.reads("--machine", plan.machine);
  if (llvm::Error e = paths.check())
    return e;
  PlanFlags withMachine = plan;
  if (llvm::Error e = readMachineFlag(withMachine))
    return e;
  auto device = openDevice(deviceName, deviceOptions(model, withMachine));
  if (!device)
    return device.takeError();
  auto given = readInputs(model.inputs);
  if (!given)
    return given.takeError();
  auto g = loadModel(model, paths, *given);
  if (!g)
    return g.takeError();
  auto options = compileOptions(model, withMachine, *given);
  if (!options)
    return options.takeError();
  divideAmongProcesses(*g, *options);
  options->firstStep = firstStepOn(**device, *given, model.seed);
  if (forward == ForwardAlone::Allowed && runsForwardAlone(model, plan, *g, options->step))
    options->differentiates = false;
  else if (llvm::Error e = loss == LossOfStep::Refused ? checkDifferentiates(*g, model)
                                                       : llvm::Error::success())
    return e;
  return StepToCompile{std::move(*device), std::move(*g), std::move(*options), std::move(*given)};
}

} // namespace isthmus
