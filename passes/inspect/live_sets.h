// What is live while each node of a graph runs, tensor by tensor.
#pragma once

#include "passes/rewrite/problem.h"
#include <array>

namespace isthmus {

// What a storage is to the training step.
enum class LiveKind : uint8_t {
  Saved,              // made by a forward node, read by the backward pass
  Recomputed,         // made by a clone
  Fetched,            // copied back from the host's memory
  Rebuilt,            // by an inverse, or on the way to one
  Passing,            // made by a forward node, read by forward nodes alone
  ActivationGradient, // made by a backward node, and no output
  ParameterGradient,  // made by a backward node, and an output
  OtherOutput,        // made by another node, and an output: the loss, new running averages
  Workspace,
  Other // made by an update node, and no output
};
constexpr size_t kNumLiveKinds = 10;
llvm::StringRef liveKindText(LiveKind k); // "saved activations"

struct LiveTensor {
  ValueId value; // none for a workspace
  LiveKind kind = LiveKind::Other;
  int64_t bytes = 0;
  uint32_t first = 0, last = 0; // nodes, both included
};

// The parts add up to `bytes`. A result that takes over an operand's bytes has them.
struct PeakContents {
  int64_t bytes = 0;
  NodeId node; // the first where so much is live; none in a graph without nodes
  std::array<int64_t, kNumLiveKinds> bytesOf{};
  std::vector<LiveTensor> tensors; // the largest first
};

// Copies of storages, and what is live, by node: nodes run in order of the graph, each once.
struct LiveSets {
  std::vector<plan::Instance> instances;
  std::vector<int64_t> live; // by node

  ValueId value(const Graph &g, const GraphProblem &p, size_t instance) const {
    const plan::Read &made = instances[instance].made;
    return g.node(p.nodeOf(made.op)).result(made.output);
  }
  LiveKind kind(const Graph &g, const GraphProblem &p, size_t instance) const;
  PeakContents peak(const Graph &g, const GraphProblem &p) const;
};

// `p` is the problem of `g`.
LiveSets liveSetsOf(const Graph &g, const GraphProblem &p);

} // namespace isthmus
