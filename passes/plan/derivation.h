// The cheapest way to have a storage at a place in a schedule: a tree of tasks whose leaves are
// storages of which an instance is there. Of all tasks that may make a storage one has to run, of
// all that this one reads each has to be had: the search is Knuth's generalization of Dijkstra's
// algorithm ("A generalization of Dijkstra's algorithm", 1977). Standard library only.
#pragma once

#include "passes/plan/storage_graph.h"

#include <functional>

namespace isthmus::plan {

class Derivations {
public:
  explicit Derivations(const StorageGraph &g) : g_(g), place_(g.storages.size(), kNowhere) {}

  struct Terms {
    // What it costs to read the newest instance as it is, microseconds; infinite if there is none.
    std::function<double(StorageId)> priceAsIs;
    // Whether the task may run here; its operands aside.
    std::function<bool(TaskId)> mayRun;
  };
  // The tasks to run, in an order in which each finds what it reads; none if the storage is best
  // read as it is. What two tasks of the tree read counts for each of them.
  const std::vector<TaskId> &cheapest(StorageId s, const Terms &terms);

  // Looked at since the beginning.
  uint64_t work() const { return work_; }

private:
  static constexpr uint32_t kNowhere = ~0u, kNoOffer = ~0u;

  struct Wanted {
    StorageId storage;
    double above = 0;             // of the tasks on the cheapest way from the root
    double price = 0;             // of having it, as known so far
    uint32_t offer = kNoOffer;    // that makes it at this price; none: it is read as it is
    std::vector<uint32_t> readBy; // offers
    bool isExpanded = false, isSettled = false;
  };
  struct Offer { // to run a task
    TaskId task;
    double price = 0;     // of the task and of what of its reads is settled
    uint32_t missing = 0; // reads that are not
  };

  uint32_t placeOf(StorageId s, double above, const Terms &terms);
  void collect(const Terms &terms);
  void expand(uint32_t at, const Terms &terms);
  void addOffer(TaskId t, uint32_t from, const Terms &terms);
  void settle();
  void make(uint32_t offer);
  void emit();
  void push(double price, uint32_t at);
  std::pair<double, uint32_t> pop();

  const StorageGraph &g_;
  IdVector<StorageId, uint32_t> place_; // in `wanted_`
  std::vector<Wanted> wanted_;          // the first is the root
  std::vector<Offer> offers_;
  std::vector<std::pair<double, uint32_t>> heap_;
  std::vector<TaskId> out_;
  uint64_t work_ = 0;
};

} // namespace isthmus::plan
