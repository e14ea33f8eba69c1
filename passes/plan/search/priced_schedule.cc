#include "passes/plan/search/priced_schedule.h"

#include "passes/plan/search/derivation.h"

#include <algorithm>
#include <limits>

namespace isthmus::plan {
namespace {

class Scheduler {
public:
  Scheduler(const StorageGraph &g, const MemoryPrice &price)
      : g_(g), derivations_(g), price_(price), usedAt_(g.storages.size(), kNever) {
    terms_.bias = price.bias;
    terms_.priceAsIs = [this](StorageId s) { return priceOfHolding(s); };
    terms_.mayRun = [this](TaskId t) { return mayRun(t); };
  }

  PricedSchedule run(const std::vector<TaskId> &order) {
    for (size_t i = 0; i < order.size(); ++i) {
      place_ = uint32_t(i);
      for (StorageId s : g_.tasks[order[i]].reads)
        provide(s);
      runTask(order[i]);
      isBackward_ |= g_.tasks[order[i]].isBackward;
      now_ += price_.shares[i];
      if (price_.sparesReaders)
        touch(order[i]);
    }
    for (StorageId s : g_.storages.ids())
      if (g_.storages[s].lives)
        provide(s);
    out_.work = derivations_.work() + out_.tasks.size();
    return std::move(out_);
  }

private:
  static constexpr double kNever = -1;

  double priceOfHolding(StorageId s) const {
    if (usedAt_[s] == kNever)
      return std::numeric_limits<double>::infinity();
    return price_.perByte * double(g_.storages[s].bytes) * (now_ - usedAt_[s]);
  }

  // In an order by phases, alternatives of the backward phase come after its first step.
  // Overwritten bytes are not read.
  bool mayRun(TaskId t) const {
    const std::vector<TaskId> &overwriters = g_.overwritersOf(t);
    return (g_.order != Order::Phases || !g_.isAlternative(t) || !g_.tasks[t].isBackward ||
            isBackward_) &&
           std::none_of(overwriters.begin(), overwriters.end(),
                        [&](TaskId by) { return usedAt_[g_.tasks[by].firstMade] != kNever; });
  }

  void provide(StorageId s) {
    const std::vector<TaskId> tasks = derivations_.cheapest(s, terms_);
    for (TaskId t : tasks)
      runTask(t);
  }

  void runTask(TaskId t) {
    out_.tasks.push_back(t);
    out_.places.push_back(place_);
    touch(t);
  }

  void touch(TaskId t) {
    for (StorageId s : g_.tasks[t].reads)
      usedAt_[s] = now_;
    for (StorageId s : g_.tasks[t].made())
      usedAt_[s] = now_;
  }

  const StorageGraph &g_;
  Derivations derivations_;
  Derivations::Terms terms_;
  const MemoryPrice &price_;
  IdVector<StorageId, double> usedAt_; // last use of the newest instance, in shares
  double now_ = 0;
  uint32_t place_ = 0;
  bool isBackward_ = false; // the first backward task has run
  PricedSchedule out_;
};

} // namespace

PricedSchedule scheduleForPrice(const StorageGraph &g, const std::vector<TaskId> &order,
                                const MemoryPrice &price) {
  return Scheduler(g, price).run(order);
}

} // namespace isthmus::plan
