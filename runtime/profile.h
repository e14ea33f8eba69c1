// What each node of a graph takes on a device, measured.
#pragma once

#include "runtime/executor.h"

namespace isthmus {

struct NodeProfile {
  double seconds = 0;    // the median over the steps
  int64_t liveBytes = 0; // in the arena while it runs, its workspace among them
};

struct ProfileOptions {
  int steps = 5; // that are measured, after one that warms up
  RandomKey random;
  std::function<void(size_t)> progress; // nodes done, of (steps + 1) times those of the graph
};

// Of an executor on `device` that has been fed, by node. Each node is waited for, and what a wait
// for nothing takes is taken off. What a step takes as a whole may be less, where a device runs
// ahead of its caller.
llvm::Expected<std::vector<NodeProfile>> profileNodes(const Graph &graph, Executor &executor,
                                                      Device &device, const ProfileOptions &o);

// Of each call the mean over its nodes; `target` is the device's.
MeasuredCosts measuredCosts(const Graph &graph, llvm::ArrayRef<NodeProfile> nodes,
                            const Target &target);

} // namespace isthmus
