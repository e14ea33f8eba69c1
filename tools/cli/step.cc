#include "tools/cli/step.h"

#include "tools/cli/devices.h"
#include "tools/cli/model.h"

namespace isthmus {

llvm::Expected<StepToCompile> stepToCompile(const ModelOptions &model, const PlanFlags &plan,
                                            const std::string &deviceName, CommandPaths &paths) {
  if (llvm::Error e = checkOptions(model))
    return e;
  if (llvm::Error e = checkOptions(plan))
    return e;
  paths.reads("MODEL", model.model);
  if (llvm::Error e = paths.check())
    return e;
  auto device = openDevice(deviceName, deviceOptions(model, plan));
  if (!device)
    return device.takeError();
  auto given = readInputs(model.inputs);
  if (!given)
    return given.takeError();
  auto g = loadModel(model, paths, *given);
  if (!g)
    return g.takeError();
  if (llvm::Error e = checkDifferentiates(*g, model))
    return e;
  auto options = compileOptions(model, plan, *given);
  if (!options)
    return options.takeError();
  return StepToCompile{std::move(*device), std::move(*g), std::move(*options), std::move(*given)};
}

} // namespace isthmus
