// Measures the time and memory of each node of a graph on a device.
#pragma once

#include "runtime/executor.h"

namespace isthmus {

struct NodeProfile {
  double seconds = 0;    // the median over the steps
  int64_t liveBytes = 0; // live bytes in the arena while the node runs, workspace included
};

struct ProfileOptions {
  int steps = 5; // measured steps, after one warm-up step
  RandomKey random;
  std::function<void(size_t)> progress; // gets nodes done, of (steps + 1) * numNodes
};

// Profiles each node; `executor` runs on `device` and has been fed. The device finishes each node
// before the next starts, and the time of an idle wait is subtracted. A whole step may take less
// than the sum, since a device may run ahead of its caller.
llvm::Expected<std::vector<NodeProfile>> profileNodes(const Graph &graph, Executor &executor,
                                                      Device &device, const ProfileOptions &o);

// The mean time of each distinct call over its nodes; `target` is the device's.
MeasuredCosts measuredCosts(const Graph &graph, llvm::ArrayRef<NodeProfile> nodes,
                            const Target &target);

} // namespace isthmus
