// A graph in micro-batches in the order of a pipeline.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"
#include "passes/stages/machine.h"
#include "passes/stages/task_order.h"

namespace isthmus {

struct OrderOptions {
  StageOrder order = StageOrder::OneFOneB;
  std::vector<std::string> devices; // stage s is on devices[s % devices.size()]
  Machine machine;
};

// `g` in micro-batches, with its nodes in another order: `stageOf` says the stage of each node.
// Chunks of the forward, of the backward and, in zero-bubble order, of the weights' gradients of
// one stage and micro-batch are tasks, which a simulation gives their places. Other nodes come
// where they are first needed, or at the end. Each node records its place in `g`.
struct OrderedGraph {
  Graph graph;
  std::vector<uint32_t> stageOf; // by node of `graph`
  PipelineTasks tasks;
  static constexpr uint32_t kNoTask = ~0u;
  std::vector<uint32_t> taskOf; // by node of `graph`
};
OrderedGraph inPipelineOrder(const Graph &g, const std::vector<uint32_t> &stageOf,
                             const Target &t, const OrderOptions &o);

} // namespace isthmus
