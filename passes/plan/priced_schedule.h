// Schedules for a price of memory: what is read is held since its last use or derived anew,
// whichever costs less where a byte that is held has its price.
//
// The price of holding something through a task of the given order is a share of all: alike for all
// tasks, so that what is held long is dear, or high at those where the peak is. A schedule takes
// one pass through the order, and at each read a cheap derivation: chains of inverses, which bring
// a network's values back one from the other, are found whole, where a search that evicts one
// storage after the other would have to hold what they begin with. Standard library only.
#pragma once

#include "passes/plan/storage_graph.h"

namespace isthmus::plan {

struct PricedSchedule {
  std::vector<TaskId> tasks;
  std::vector<uint32_t> places; // by task: that in the order of the one for which it runs
  uint64_t work = 0;            // looked at for it
};

struct MemoryPrice {
  double perByte = 0;         // microseconds
  std::vector<double> shares; // of it, by place in the order
  // What is read is derived even if to hold it would cost less, by this factor at most. A chain of
  // derivations begins with what is dear for the first who needs it, and cheap for all together.
  double bias = 1;
  // What a task reads and makes is live while it runs in any case, and costs nothing there. Where
  // the price is one of a single moment, that tells what has to be held through it from what need
  // not.
  bool sparesReaders = false;
};

// `order`: each task that the outputs need once, each after those that make what it reads.
PricedSchedule scheduleForPrice(const StorageGraph &g, const std::vector<TaskId> &order,
                                const MemoryPrice &price);

} // namespace isthmus::plan
