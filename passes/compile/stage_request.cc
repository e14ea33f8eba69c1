#include "passes/compile/stage_request.h"

#include "ir/name_list.h"
#include "ir/spelling.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace isthmus {

// "auto", or one of the names.
template <typename Value, typename Name>
static llvm::Expected<std::optional<Value>> parseNamed(llvm::StringRef text, llvm::StringRef option,
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
  return makeError("{0} expects one of {1}, got '{2}'{3}", option, llvm::join(names, ", "), text,
                   didYouMean(text, names));
}

llvm::Expected<std::optional<StageOrder>> parseStageOrder(llvm::StringRef text,
                                                          llvm::StringRef option) {
  return parseNamed<StageOrder>(text, option, kStageOrders, stageOrderName);
}

llvm::Expected<std::optional<CheckpointMode>> parseCheckpointMode(llvm::StringRef text,
                                                                  llvm::StringRef option) {
  constexpr CheckpointMode all[] = {CheckpointMode::Always, CheckpointMode::ExceptLast,
                                    CheckpointMode::Never};
  if (text.contains(',') || text.startswith("%") || text.contains('*'))
    return makeError("{0} says which micro-batches recompute: always, except_last, never or auto; "
                     "a list of values to keep goes with {0}s",
                     option);
  return parseNamed<CheckpointMode>(text, option, all, checkpointModeName);
}

llvm::Error parseDevices(llvm::StringRef text, llvm::StringRef option, StageOptions &o) {
  o.machine = {};
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    if (!isDeviceName(part) || part == "cpu" || !o.machine.add({part.str(), std::nullopt, 1}))
      return makeError("{0} expects different devices with a comma between, such as cpu:0,cpu:1, "
                       "got '{1}'",
                       option, text);
  }
  return llvm::Error::success();
}

llvm::Error parseBalance(llvm::StringRef text, llvm::StringRef option, StageOptions &o) {
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
    return makeError("{0} expects shares of the cost, such as 2,1,1, or names of values behind "
                     "which stages end, such as %a,%b, got '{1}'",
                     option, text);
  for (const NamePattern &name : parseNameList(text))
    o.ends.push_back(name.text);
  return llvm::Error::success();
}

llvm::Error checkStages(const StageOptions &o, llvm::StringRef dashes) {
  if (!o.shares.empty() && o.shares.size() != o.stages)
    return makeError("{0}balance gives {1} shares, for {0}stages={2}; expected one for each stage",
                     dashes, o.shares.size(), o.stages);
  if (!o.ends.empty() && o.ends.size() + 1 != o.stages)
    return makeError("{0}balance names {1} values, for {0}stages={2}; expected one fewer than "
                     "stages, behind each of which the next stage begins",
                     dashes, o.ends.size(), o.stages);
  if (o.order == StageOrder::Interleaved &&
      (o.machine.devices().empty() || o.machine.devices().size() >= o.stages))
    return makeError("{0}schedule=interleaved needs more stages than devices; give, for example, "
                     "{0}stages=4 {0}devices=cpu:0,cpu:1",
                     dashes);
  return llvm::Error::success();
}

} // namespace isthmus
