// A cheap way to have a storage at a place in a schedule: tasks whose leaves are storages of which
// an instance is there. Of all tasks that may make a storage one has to run, of all that this one
// reads each has to be had: the search is Knuth's generalization of Dijkstra's algorithm ("A
// generalization of Dijkstra's algorithm", 1977). It knows no sharing, so it goes once by the sum
// of what is read, which counts what two reads share twice, and once by the most of it, which
// counts it once, and all else not at all. What both find is priced as it is, and the cheaper one
// taken. Standard library only.
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
  static constexpr uint32_t kNowhere = ~0u, kNoOffer = ~0u;

  struct Wanted {
    StorageId storage;
    double above = 0;             // of the tasks on the cheapest way from the root
    double asIs = 0;              // the price of reading it as it is
    double price = 0;             // of having it, as known so far
    uint32_t offer = kNoOffer;    // that makes it at this price; none: it is read as it is
    std::vector<uint32_t> readBy; // offers
    bool isExpanded = false, isSettled = false, isPaid = false;
  };
  struct Offer { // to run a task
    TaskId task;
    double price = 0;     // of the task and of what of its reads is settled
    uint32_t missing = 0; // reads that are not
  };
  enum class Of : uint8_t { Sum, Most };

  uint32_t placeOf(StorageId s, double above, const Terms &terms);
  void collect(const Terms &terms);
  void expand(uint32_t at, const Terms &terms);
  void addOffer(TaskId t, uint32_t from, const Terms &terms);
  void settle(Of reads);
  void make(uint32_t offer);
  double emit(std::vector<TaskId> &out);
  void push(double price, uint32_t at);
  std::pair<double, uint32_t> pop();

  const StorageGraph &g_;
  IdVector<StorageId, uint32_t> place_; // in `wanted_`
  std::vector<Wanted> wanted_;          // the first is the root
  std::vector<Offer> offers_;
  std::vector<std::pair<double, uint32_t>> heap_;
  std::vector<TaskId> out_, other_;
  uint64_t work_ = 0;
};

} // namespace isthmus::plan
