// A cheap way to have a storage at a place in a schedule: tasks whose leaves are storages of which
// an instance is there. Of all tasks that may make a storage one has to run, of all that this one
// reads each has to be had (cheapest_steps.h). That search knows no sharing, so it goes once by the
// sum of what is read and once by the most of it. What both find is priced as it is, and the
// cheaper one taken. Standard library only.
#pragma once

#include "passes/cheapest_steps.h"
#include "passes/plan/storage_graph.h"

#include <functional>
#include <queue>

namespace isthmus::plan {

class Derivations {
public:
  explicit Derivations(const StorageGraph &g) : g_(g), place_(g.storages.size(), kNowhere) {}

  struct Terms {
    // What it costs to read the newest instance as it is, microseconds; infinite if there is none.
    std::function<double(StorageId)> priceAsIs;
    // Whether the task may run here; its operands aside.
    std::function<bool(TaskId)> mayRun;
    // Above 1, the wanted storage is derived although to read it as it is would cost less, by this
    // factor at most: what is made on the way is there for others.
    double bias = 1;
  };
  // The tasks to run, in an order in which each finds what it reads; none if the storage is best
  // read as it is.
  const std::vector<TaskId> &cheapest(StorageId s, const Terms &terms);

  // Looked at since the beginning.
  uint64_t work() const { return work_; }

private:
  static constexpr uint32_t kNowhere = ~0u;

  struct Wanted {
    StorageId storage;
    double above = 0; // cost of the tasks on the cheapest way from the root
    double asIs = 0;  // the price of reading it as it is
    bool isExpanded = false;
    bool isThere = false; // read as it is, or made; while tasks are listed
  };

  uint32_t placeOf(StorageId s, double above, const Terms &terms);
  void collect(const Terms &terms);
  void expand(uint32_t at, const Terms &terms);
  void addOffer(TaskId t, uint32_t from, const Terms &terms);
  void listSteps();
  double emit(std::vector<TaskId> &out);

  const StorageGraph &g_;
  IdVector<StorageId, uint32_t> place_;     // in `wanted_`
  std::vector<Wanted> wanted_;              // the first is the root
  std::vector<TaskId> offers_;              // that may run
  using Open = std::pair<double, uint32_t>; // the price above, and a place in `wanted_`
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  CheapestSteps steps_; // things are what is wanted, steps are offers
  std::vector<TaskId> out_, other_;
  uint64_t work_ = 0;
};

} // namespace isthmus::plan
