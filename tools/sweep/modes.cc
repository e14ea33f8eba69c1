#include "tools/sweep/modes.h"

#include "passes/checkpoint/policy.h"
#include "tools/cli/budget.h"
#include "tools/cli/exit.h"
#include "tools/cli/memory_mode.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

// Clears the flags for which the mode has no use.
SweepMode modeOf(std::string name, PlanFlags plan) {
  if (!plan.hasBudget())
    plan.allow.clear();
  if (!plan.allows(kInvertWay)) {
    plan.maxInverseError.reset();
    plan.iterations.reset();
  }
  if (!plan.allows(kFetchWay))
    plan.hostMemory.reset();
  return {std::move(name), std::move(plan)};
}

llvm::Expected<SweepMode> modeNamed(llvm::StringRef name, const PlanFlags &flags) {
  PlanFlags plan = flags;
  if (setMemoryMode(plan, name))
    return modeOf(name.str(), std::move(plan));
  plan.policy = parsePolicy(name);
  plan.budget = parseBudget(name);
  if (plan.isChosen())
    return modeOf(name.str(), std::move(plan));
  std::vector<llvm::StringRef> known(memoryModes().begin(), memoryModes().end());
  known.insert(known.end(), policyNames().begin(), policyNames().end());
  return usageError("--policies expects a list of {0}, and budgets such as 70%, 2GiB or min, got "
                    "'{1}'{2}",
                    llvm::join(known, ", "), name, didYouMean(name, known));
}

llvm::Expected<std::vector<SweepMode>> modesNamed(llvm::StringRef list, const PlanFlags &flags) {
  std::vector<SweepMode> out;
  for (llvm::StringRef name : llvm::split(list, ',')) {
    auto mode = modeNamed(name.trim(), flags);
    if (!mode)
      return mode.takeError();
    if (llvm::any_of(out, [&](const SweepMode &m) { return m.name == mode->name; }))
      return usageError("--policies names '{0}' twice", mode->name);
    out.push_back(std::move(*mode));
  }
  return out;
}

std::string nameOf(const PlanFlags &flags) {
  return flags.checkpoints ? "checkpoints"
         : flags.policy    ? policyName(*flags.policy).str()
         : flags.budget    ? budgetText(*flags.budget)
                           : "memory-limit";
}

llvm::Error checkModes(const std::vector<SweepMode> &modes, const PlanFlags &flags) {
  auto noneHas = [&](auto option) {
    return llvm::none_of(modes, [&](const SweepMode &m) { return option(m.plan); });
  };
  if (!flags.allow.empty() && noneHas([](const PlanFlags &f) { return f.hasBudget(); }))
    return usageError("--allow says how a plan within a budget is made, and none of the sweep's "
                      "lines has a budget");
  if (flags.maxInverseError && noneHas([](const PlanFlags &f) { return !!f.maxInverseError; }))
    return usageError("--max-inverse-error bounds what inverses may be off by, and none of the "
                      "sweep's lines has any; give --allow=recompute,invert");
  if (flags.iterations && noneHas([](const PlanFlags &f) { return !!f.iterations; }))
    return usageError("--iterations is for inverses, and none of the sweep's lines has any; give "
                      "--allow=recompute,invert");
  if (flags.hostMemory && noneHas([](const PlanFlags &f) { return !!f.hostMemory; }))
    return usageError("--host-memory bounds what is fetched, and none of the sweep's lines "
                      "fetches; give --allow=recompute,fetch");
  for (const SweepMode &mode : modes)
    if (llvm::Error e = checkOptions(mode.plan))
      return e;
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<SweepMode>> sweepModes(SweepAxis axis, const std::string &policies,
                                                  const PlanFlags &flags) {
  if (axis == SweepAxis::Budget) {
    if (flags.isChosen() || !policies.empty())
      return usageError("--budgets says how each row is planned, so --policies, --policy, "
                        "--checkpoints and --budget have no meaning beside it");
    SweepMode mode{"budget", flags};
    mode.plan.budget =
        Budget{Budget::Smallest}; // each point sets its own; the checks below need one
    if (llvm::Error e = checkOptions(mode.plan))
      return e;
    return std::vector<SweepMode>{mode};
  }
  if (flags.isChosen() && !policies.empty())
    return usageError("--policies and --policy, --checkpoints and --budget are ways to say how a "
                      "sweep is planned; give one of them");
  std::vector<SweepMode> modes;
  if (flags.isChosen() || (policies.empty() && flags.hasBudget())) {
    modes = {{nameOf(flags), flags}};
  } else {
    auto named = modesNamed(policies.empty() ? "linear,sqrt,constant" : policies, flags);
    if (!named)
      return named.takeError();
    modes = std::move(*named);
  }
  if (llvm::Error e = checkModes(modes, flags))
    return e;
  return modes;
}

} // namespace isthmus
