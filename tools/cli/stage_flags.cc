#include "tools/cli/stage_flags.h"

#include "passes/compile/machine_json.h"
#include "passes/compile/stage_request.h"
#include "tools/cli/exit.h"
#include "tools/cli/verb.h"

namespace isthmus {
namespace {

llvm::Expected<uint32_t> stagesOption(llvm::StringRef text, llvm::StringRef option) {
  uint32_t stages = 0;
  if (text.getAsInteger(10, stages) || stages == 0)
    return usageError("{0} expects a number of stages from 1 on, got '{1}'", option, text);
  return stages;
}

llvm::Expected<std::optional<StageOrder>> scheduleOption(llvm::StringRef text,
                                                         llvm::StringRef option) {
  if (text == "constant" || text == "cosine" || text == "linear")
    return usageError("{0} is the order of the micro-batches, got '{1}'; the schedule of the "
                      "learning rate is --lr-schedule",
                      option, text);
  return parseStageOrder(text, option);
}

} // namespace

void addStageFlags(CLI::App &verb, PlanFlags &o) {
  const char *group = "Plan options";
  auto add = [&](const char *name, auto parse, const std::string &doc) {
    verb.add_option_function<std::string>(
            name,
            [&o, parse, name](const std::string &text) {
              if (llvm::Error e = parse(llvm::StringRef(text), llvm::StringRef(name)))
                throw CLI::ValidationError(plainMessage(std::move(e)));
              o.hasStages = true;
            },
            doc)
        ->group(group);
  };
  auto into = [](auto &to, auto parse) {
    return [&to, parse](llvm::StringRef text, llvm::StringRef name) -> llvm::Error {
      auto value = parse(text, name);
      if (!value)
        return value.takeError();
      to = std::move(*value);
      return llvm::Error::success();
    };
  };
  add("--stages", into(o.stages.stages, stagesOption),
      "divide the step among so many devices, forward nodes and their gradients alike; default: "
      "one for each device that the file (@cpu:1) or --devices names");
  add("--schedule", into(o.stages.order, scheduleOption),
      "the order of the micro-batches: gpipe, all forward and then all backward; 1f1b, backward as "
      "soon as possible; interleaved, the same with several stages on a device; zero-bubble, "
      "gradients of weights fill the waits; auto, the fastest by simulation; default: auto");
  add("--checkpoint", into(o.stages.checkpoint, parseCheckpointMode),
      "which micro-batches recompute what a stage keeps for its backward pass: always, "
      "except_last, never, or auto, as the budget has it; default: auto");
  add(
      "--devices",
      [&o](llvm::StringRef text, llvm::StringRef name) {
        return parseDevices(text, name, o.stages);
      },
      "where the stages run, such as cpu:0,cpu:1: stage s on device s, and on from the first "
      "again if there are fewer; default: cpu:0, cpu:1, ..., or cuda:0, cuda:1, ... on GPUs");
  add(
      "--balance",
      [&o](llvm::StringRef text, llvm::StringRef name) {
        return parseBalance(text, name, o.stages);
      },
      "the stages' shares of the cost, such as 2,1,1, or names of values behind which stages end, "
      "such as %h1,%h2; default: equal shares");
}

void addMachineFlag(CLI::App &verb, PlanFlags &o) {
  addPathOption(
      verb, "--machine", o.machine,
      "devices with their memory and speed, and the links between them, a JSON file "
      "(docs/stages.md): each device is planned within its memory; --stages is the number "
      "of its devices, if it is not given")
      ->group("Plan options");
}

llvm::Error readMachineFlag(PlanFlags &o) {
  if (o.machine.empty())
    return llvm::Error::success();
  if (!o.stages.machine.devices().empty())
    return usageError("--machine names the devices, so --devices has no meaning beside it");
  auto machine = readMachine(o.machine);
  if (!machine)
    return machine.takeError();
  o.stages.machine = std::move(*machine);
  if (o.stages.stages == 0)
    o.stages.stages = uint32_t(o.stages.machine.devices().size());
  o.hasStages = true;
  return llvm::Error::success();
}

llvm::Error checkStages(const PlanFlags &o) {
  if (llvm::Error e = checkStages(o.stages, "--"))
    return usageError("{0}", plainMessage(std::move(e)));
  return llvm::Error::success();
}

} // namespace isthmus
