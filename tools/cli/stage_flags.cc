#include "tools/cli/stage_flags.h"

#include "ir/spelling.h"
#include "ir/name_list.h"
#include "passes/compile/machine_json.h"
#include "tools/cli/exit.h"
#include "tools/cli/verb.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace isthmus {
namespace {

llvm::Expected<uint32_t> stagesOption(llvm::StringRef text, llvm::StringRef option) {
  uint32_t stages = 0;
  if (text.getAsInteger(10, stages) || stages == 0)
    return usageError("{0} expects a number of stages from 1 on, got '{1}'", option, text);
  return stages;
}

// "auto", or one of the names.
template <typename Value, typename Name>
llvm::Expected<std::optional<Value>> namedOption(llvm::StringRef text,
                                                        llvm::StringRef option,
                                                        llvm::ArrayRef<Value> all, Name nameOf) {
  if (text == "auto")
    return std::nullopt;
  std::vector<llvm::StringRef> names;
  for (Value v : all) {
    if (text == nameOf(v))
      return v;
    names.push_back(nameOf(v));
  }
  names.push_back("auto");
  const bool isOfRate = option == "--schedule" &&
                        (text == "constant" || text == "cosine" || text == "linear");
  return usageError("{0} expects one of {1}, got '{2}'{3}", option, llvm::join(names, ", "), text,
                    isOfRate ? "; the schedule of the learning rate is --lr-schedule"
                             : didYouMean(text, names));
}

llvm::Expected<std::optional<CheckpointMode>> checkpointOption(llvm::StringRef text,
                                                                      llvm::StringRef option) {
  constexpr CheckpointMode all[] = {CheckpointMode::Always, CheckpointMode::ExceptLast,
                                    CheckpointMode::Never};
  auto mode = namedOption<CheckpointMode>(text, option, all, checkpointModeName);
  if (!mode && (text.contains(',') || text.startswith("%") || text.contains('*'))) {
    llvm::consumeError(mode.takeError());
    return usageError("{0} says which micro-batches recompute: always, except_last, never or auto; "
                      "a list of values to keep goes with --checkpoints",
                      option);
  }
  return mode;
}

llvm::Expected<std::vector<std::string>> devicesOption(llvm::StringRef text,
                                                              llvm::StringRef option) {
  std::vector<std::string> devices;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    if (!isDeviceName(part) || part == "cpu" || llvm::is_contained(devices, part))
      return usageError("{0} expects different devices with a comma between, such as "
                        "cpu:0,cpu:1, got '{1}'",
                        option, text);
    devices.push_back(part.str());
  }
  return devices;
}

// Numbers are shares of the cost, anything else names of values.
llvm::Error balanceOption(llvm::StringRef text, llvm::StringRef option, StageOptions &o) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, ',');
  o.shares.clear();
  o.ends.clear();
  for (llvm::StringRef part : parts) {
    double share = 0;
    if (!part.trim().getAsDouble(share) && share > 0 && std::isfinite(share))
      o.shares.push_back(share);
  }
  if (o.shares.size() == parts.size())
    return llvm::Error::success();
  if (!o.shares.empty())
    return usageError("{0} expects shares of the cost, such as 2,1,1, or names of values behind "
                      "which stages end, such as %a,%b, got '{1}'",
                      option, text);
  for (const NamePattern &name : parseNameList(text))
    o.ends.push_back(name.text);
  return llvm::Error::success();
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
      "one for each device that the file names (@cpu:1)");
  add("--schedule",
      into(o.stages.order,
           [](llvm::StringRef text, llvm::StringRef option) {
             return namedOption<StageOrder>(text, option, kStageOrders, stageOrderName);
           }),
      "the order of the micro-batches: gpipe, all forward and then all backward; 1f1b, backward as "
      "soon as possible; interleaved, the same with several stages on a device; zero-bubble, "
      "gradients of weights fill the waits; auto, the fastest by simulation; default: auto");
  add("--checkpoint", into(o.stages.checkpoint, checkpointOption),
      "which micro-batches recompute what a stage keeps for its backward pass: always, "
      "except_last, never, or auto, as the budget has it; default: auto");
  add("--devices",
      [&o](llvm::StringRef text, llvm::StringRef name) -> llvm::Error {
        auto devices = devicesOption(text, name);
        if (!devices)
          return devices.takeError();
        o.stages.machine.devices.clear();
        for (const std::string &device : *devices)
          o.stages.machine.devices.push_back({device, std::nullopt, 1});
        return llvm::Error::success();
      },
      "where the stages run, such as cpu:0,cpu:1: stage s on device s, and on from the first "
      "again if there are fewer; default: cpu:0, cpu:1, ...");
  add("--balance",
      [&o](llvm::StringRef text, llvm::StringRef name) {
        return balanceOption(text, name, o.stages);
      },
      "the stages' shares of the cost, such as 2,1,1, or names of values behind which stages end, "
      "such as %h1,%h2; default: equal shares");
}

void addMachineFlag(CLI::App &verb, PlanFlags &o) {
  addPathOption(verb, "--machine", o.machine,
                "devices with their memory and speed, and the links between them, a JSON file "
                "(docs/stages.md): each device is planned within its memory; --stages is the number "
                "of its devices, if it is not given")
      ->group("Plan options");
}

llvm::Error readMachineFlag(PlanFlags &o) {
  if (o.machine.empty())
    return llvm::Error::success();
  if (!o.stages.machine.devices.empty())
    return usageError("--machine names the devices, so --devices has no meaning beside it");
  auto machine = readMachine(o.machine);
  if (!machine)
    return machine.takeError();
  o.stages.machine = std::move(*machine);
  if (o.stages.stages == 0)
    o.stages.stages = uint32_t(o.stages.machine.devices.size());
  o.hasStages = true;
  return llvm::Error::success();
}

llvm::Error checkStages(const PlanFlags &o) {
  const StageOptions &s = o.stages;
  if (!s.shares.empty() && s.shares.size() != s.stages)
    return usageError("--balance gives {0} shares, for --stages={1}; expected one for each stage",
                      s.shares.size(), s.stages);
  if (!s.ends.empty() && s.ends.size() + 1 != s.stages)
    return usageError("--balance names {0} values, for --stages={1}; expected one fewer than "
                      "stages, behind each of which the next stage begins",
                      s.ends.size(), s.stages);
  if (s.order == StageOrder::Interleaved && (s.machine.devices.empty() || s.machine.devices.size() >= s.stages))
    return usageError("--schedule=interleaved needs more stages than devices; give, for example, "
                      "--stages=4 --devices=cpu:0,cpu:1");
  return llvm::Error::success();
}

} // namespace isthmus
