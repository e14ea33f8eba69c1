// Finds cheap steps that make a storage available at a point of a schedule: a tree of tasks whose
// leaves are storages with a live instance. A storage needs one of the tasks that can produce it; a
// task needs all of its operands (cheapest_steps.h). That search does not know that subtrees are
// shared. So it runs twice: once a task pays the sum of its operands' prices, once the highest of
// them. Both trees are priced exactly, and the cheaper one is taken. Standard library only.
#pragma once

#include "passes/cheapest_steps.h"
#include "passes/plan/storages/storage_graph.h"

#include <functional>
#include <queue>

namespace isthmus::plan {

class Derivations {
public:
  explicit Derivations(const StorageGraph &g) : g_(g), place_(g.storages.size(), kNowhere) {}

  struct Terms {
    // The cost of reading the newest instance, in microseconds; infinite if no instance is live.
    std::function<double(StorageId)> priceAsIs;
    // Whether the task may run here, whatever its operands.
    std::function<bool(TaskId)> mayRun;
    // If above 1, the wanted storage is derived even if reading its instance would cost less, by at
    // most this factor: later readers can use the storages made on the way.
    double bias = 1;
  };
  // The tasks to run, each after the makers of its operands; none if reading the storage's newest
  // instance is cheapest.
  const std::vector<TaskId> &cheapest(StorageId s, const Terms &terms);

  // Storages and tasks examined so far.
  uint64_t work() const { return work_; }

private:
  static constexpr uint32_t kNowhere = ~0u;

  struct Wanted {
    StorageId storage;
    double above = 0; // cost of the tasks on the cheapest path from the root
    double asIs = 0;  // the price of reading the newest instance
    bool isExpanded = false;
    bool isThere = false; // while tasks are listed: it is paid for or made
  };

  uint32_t placeOf(StorageId s, double above, const Terms &terms);
  void collect(const Terms &terms);
  void expand(uint32_t at, const Terms &terms);
  void addOffer(TaskId t, uint32_t from, const Terms &terms);
  void listSteps();
  double emit(std::vector<TaskId> &out);

  const StorageGraph &g_;
  IdVector<StorageId, uint32_t> place_;     // index in `wanted_`
  std::vector<Wanted> wanted_;              // the first is the root
  std::vector<TaskId> offers_;              // tasks that may run
  using Open = std::pair<double, uint32_t>; // path cost, `wanted_` index
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  CheapestSteps steps_; // its things are `wanted_`, its steps are `offers_`
  std::vector<TaskId> out_, other_;
  uint64_t work_ = 0;
};

} // namespace isthmus::plan
