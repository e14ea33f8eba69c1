// Schedules for a given price of memory. Each operand is either held since its last use or derived
// anew, whichever costs less when every held byte has a price.
//
// Each task of the given order has a share of the price, which is paid for bytes held through it.
// Equal shares make long idle intervals expensive; large shares at the peak make holding through it
// expensive. A schedule takes one pass through the order, with one cheap derivation at each read.
// This finds chains of inverses, which rebuild a network's values one from the other, as a whole; a
// search that evicts one storage after the other would have to hold the storages that a chain
// begins with. Standard library only.
#pragma once

#include "passes/plan/storages/storage_graph.h"

namespace isthmus::plan {

struct PricedSchedule {
  std::vector<TaskId> tasks;
  std::vector<uint32_t> places; // by entry of `tasks`: the place of the task that needs it
  uint64_t work = 0;            // storages and tasks examined
};

struct MemoryPrice {
  double perByte = 0;         // microseconds
  std::vector<double> shares; // of `perByte`, by place in the order
  // An operand is derived even if holding it would cost less, by at most this factor. The first
  // storage of a chain of derivations costs its first reader much, and all readers together little.
  double bias = 1;
  // A task's operands and results are live while it runs in any case, so holding them through it is
  // free. If the price is all at one moment, this separates the storages that must be held through
  // that moment from the others.
  bool sparesReaders = false;
};

// `order`: every task that the outputs need, once, after the makers of its operands.
PricedSchedule scheduleForPrice(const StorageGraph &g, const std::vector<TaskId> &order,
                                const MemoryPrice &price);

} // namespace isthmus::plan
