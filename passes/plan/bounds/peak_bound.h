// Lower bounds on the peak over all orders and all amounts of recomputation.
#pragma once

#include "passes/plan/bounds/needs.h"

namespace isthmus::plan {

// A lower bound on the live bytes while the task runs: its operands, results and workspace, less
// every result that could take an operand's bytes by donation.
int64_t workingSet(const Needs &needs, const Needs::Task &t);

struct SizedTask {
  int64_t bytes; // working set
  TaskId task;
};
// The tasks with the largest working sets, at most `most` of them, largest first.
std::vector<SizedTask> largestWorkingSets(const Needs &needs, size_t most);

// The bytes of all outputs together.
int64_t outputBytes(const Needs &needs);

// A lower bound on every schedule's peak: the larger of all outputs and the largest working set of
// one task, to which are added the storages that must be live meanwhile because their makers may
// run only once. Takes a few passes over the graph.
int64_t structuralPeak(const Needs &needs);

// A lower bound on the peak of every schedule whose ops first run in the source order. Storages
// whose makers may run only once are live until their last read; if that holds for all, the order
// alone tells the peak. Linear.
int64_t fixedOrderPeak(const Needs &needs);

// A lower bound on every schedule's peak, and no less than `known`, which must already be one.
// `work` has the planner's unit; when it is used up, the bound proven by then is returned.
int64_t leastPeak(const Needs &needs, int64_t known, uint64_t work);

} // namespace isthmus::plan
