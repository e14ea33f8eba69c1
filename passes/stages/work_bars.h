// What each device does over the time of a step, as bars: a device's nodes of one kind and one
// micro-batch that run without a break.
#pragma once

#include "ir/place.h"
#include "passes/stages/simulate.h"

namespace isthmus {

enum class WorkKind : uint8_t {
  Forward,
  Backward,
  Update,
  Recompute,
  Transfer // of the host's memory
};
constexpr size_t kNumWorkKinds = 5;
llvm::StringRef workKindName(WorkKind k); // "forward", "backward", ...

struct WorkBar {
  uint32_t place = 0;
  WorkKind kind = WorkKind::Forward;
  std::optional<uint32_t> batch; // none: of all micro-batches
  // The nodes: `count` of the place's, from its node number `first`.
  uint32_t first = 0, count = 0;
  double begin = 0, end = 0; // seconds from the beginning of the step
};

// Ordered by place, then by time. The bars of a place take up the time in which it is busy: between
// them it waits. `times` has a time for each node of `g`.
std::vector<WorkBar> workBars(const Graph &g, const Places &places, const StepTimes &times);

// The nodes of each place, in order.
std::vector<std::vector<NodeId>> nodesByPlace(const Graph &g, const Places &places);

// The micro-batch of a node; none if the node is of all micro-batches.
std::optional<uint32_t> microBatchOf(const Graph &g, NodeId n);

} // namespace isthmus
