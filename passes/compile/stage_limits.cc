#include "passes/compile/stage_limits.h"

#include "ir/units.h"

namespace isthmus {

std::map<std::string, double> StageLimits::filledBy(llvm::ArrayRef<int64_t> arenas) const {
  std::map<std::string, double> out;
  for (size_t i = 0; i < places.size() && i < arenas.size(); ++i)
    if (places[i].memoryBytes)
      out[places[i].device] = double(places[i].persistentBytes + arenas[i]) /
                              double(std::max<int64_t>(1, *places[i].memoryBytes));
  return out;
}

StageLimits stageLimits(const std::vector<std::pair<std::string, int64_t>> &persistent,
                        const CompileOptions &o, const Machine &machine, int64_t baselinePeak) {
  StageLimits limits;
  int64_t most = INT64_MAX;
  if (const auto *budget = std::get_if<Budget>(&o.plan)) {
    limits.isSmallest = budget->kind == Budget::Smallest;
    if (!limits.isSmallest)
      most = budget->of(baselinePeak);
  }
  for (const auto &[device, always] : persistent) {
    StageLimits::Place p{device, always, most, std::nullopt};
    if (o.memoryLimitBytes)
      p.arenaBytes = std::min(p.arenaBytes, std::max<int64_t>(0, *o.memoryLimitBytes - always));
    if (const Machine::Device *d = machine.find(device); d && d->memoryBytes) {
      p.memoryBytes = d->memoryBytes;
      p.arenaBytes = std::min(p.arenaBytes, std::max<int64_t>(0, *d->memoryBytes - always));
    }
    limits.places.push_back(std::move(p));
  }
  return limits;
}

llvm::Error memoryNotMet(const StageLimits &limits, llvm::ArrayRef<int64_t> leastArenas,
                         const Figures &f) {
  for (size_t i = 0; i < limits.places.size(); ++i) {
    const StageLimits::Place &p = limits.places[i];
    if (!p.memoryBytes || leastArenas[i] <= *p.memoryBytes - p.persistentBytes)
      continue;
    Diag diag = makeDiag("the memory of {0}, {1}, does not suffice for its stage: parameters and "
                         "inputs take {2}, and the arena {3} at the least that was found",
                         p.device, bytesText(*p.memoryBytes), bytesText(p.persistentBytes),
                         bytesText(leastArenas[i]));
    diag.remedies = {{"stages", "", "divide the step among more devices"},
                     {"balance", "", "give this device a smaller share"},
                     {"microbatches", "", "make micro-batches smaller"}};
    return llvm::make_error<NotWithin>(std::move(diag), ErrorKind::CannotBeMet, f);
  }
  return llvm::Error::success();
}

} // namespace isthmus
