#include "tools/cli/step.h"

#include "tools/cli/devices.h"
#include "tools/cli/model.h"

namespace isthmus {

llvm::Expected<StepToPlan> stepToPlan(const ModelOptions &model, const PlanOptions &plan,
                                      const std::string &deviceName, CommandPaths &paths) {
  if (llvm::Error e = checkOptions(model))
    return e;
  if (llvm::Error e = checkOptions(plan))
    return e;
  paths.reads("MODEL", model.model);
  if (llvm::Error e = paths.check())
    return e;
  auto device = openDevice(deviceName, deviceOptions(model));
  if (!device)
    return device.takeError();
  auto given = readInputs(model.inputs);
  if (!given)
    return given.takeError();
  auto g = loadModel(model, paths, *given);
  if (!g)
    return g.takeError();
  g = differentiated(std::move(*g), model, *given);
  if (!g)
    return g.takeError();
  Graph graph = lowered(std::move(*g), model, (*device)->target());
  StepToPlan step{std::move(*device), std::move(graph), plan};
  step.plan.seed = model.seed;
  return step;
}

} // namespace isthmus
