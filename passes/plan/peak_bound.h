// The least peak of all orders and all amounts of recomputation, or something below it.
#pragma once

#include "passes/plan/needs.h"

namespace isthmus::plan {

// What is live while the task runs, at the least: its operands, results and workspace, less all
// results to which an operand might donate its bytes.
int64_t workingSet(const Needs &needs, const Needs::Task &t);

struct SizedTask {
  int64_t bytes; // of its working set
  TaskId task;
};
// So many tasks at most, the largest first.
std::vector<SizedTask> largestWorkingSets(const Needs &needs, size_t most);

// Of all outputs together.
int64_t outputBytes(const Needs &needs);

// No schedule has a lower peak: the largest working set of one task, with storages that must be
// live meanwhile because their makers may run only once; all outputs. A few passes over the graph.
int64_t structuralPeak(const Needs &needs);

// No schedule has a lower peak. At least `known`, which must be such a bound already. The unit of
// `work` is that of the planner's; when it is used up, what is proven by then is returned.
int64_t leastPeak(const Needs &needs, int64_t known, uint64_t work);

} // namespace isthmus::plan
