// Orders of a pipeline: which micro-batch each device works on, and when.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"
#include "passes/stages/machine.h"

namespace isthmus {

enum class StageOrder : uint8_t {
  GPipe,       // all micro-batches forward, then all backward (Huang et al., GPipe, 2019)
  OneFOneB,    // backward as soon as possible (PipeDream-flush, Narayanan et al., 2021)
  Interleaved, // the same where a device has several stages (Megatron-LM, Narayanan et al., 2021)
  ZeroBubble   // gradients of weights wait for a bubble (H1 of Qi et al., Zero Bubble, 2023)
};
constexpr StageOrder kStageOrders[] = {StageOrder::GPipe, StageOrder::OneFOneB,
                                       StageOrder::Interleaved, StageOrder::ZeroBubble};
llvm::StringRef stageOrderName(StageOrder o); // "gpipe", "1f1b", "interleaved", "zero-bubble"

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
};
OrderedGraph inPipelineOrder(const Graph &g, const std::vector<uint32_t> &stageOf,
                             const Target &t, const OrderOptions &o);

} // namespace isthmus
