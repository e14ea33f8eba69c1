// Schedules for a price of memory: what is read is held since its last use or derived anew,
// whichever costs less where a byte that is held has its price.
//
// The price of holding something through a task of the given order is a share of all, so that what
// is held from the beginning to the end pays the whole price. A schedule takes one pass through the
// order, and at each read the cheapest derivation: chains of inverses, which bring a network's
// values back one from the other, are found whole, where a search that evicts one storage after the
// other would have to hold what they begin with. Standard library only.
#pragma once

#include "passes/plan/storage_graph.h"

namespace isthmus::plan {

struct PricedSchedule {
  std::vector<TaskId> tasks;
  uint64_t work = 0; // looked at for it
};

// `order`: each task that the outputs need once, each after those that make what it reads.
// `shares`: of the price, by place in `order`. `pricePerByte`: microseconds.
PricedSchedule scheduleForPrice(const StorageGraph &g, const std::vector<TaskId> &order,
                                const std::vector<double> &shares, double pricePerByte);

} // namespace isthmus::plan
