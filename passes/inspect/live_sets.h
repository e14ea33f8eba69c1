// The tensors that are live while each node of a graph runs.
#pragma once

#include "passes/rewrite/problem.h"
#include <array>

namespace isthmus {

// The purpose of a storage in the training step.
enum class LiveKind : uint8_t {
  Saved,              // made by a forward node, read by the backward pass
  Recomputed,         // made by a clone
  Fetched,            // copied back from the host's memory
  Rebuilt,            // made by an inverse or by one of its helper nodes
  Encoded,            // an encoding that is kept in place of a value
  Chunked,            // a part of a value that runs in chunks, or put together from parts
  Passing,            // made by a forward node, not read by the backward pass
  ActivationGradient, // made by a backward node, not an output
  ParameterGradient,  // made by a backward node, an output
  OtherOutput,        // made by another node, an output: the loss, new running averages
  Workspace,
  Other,   // made by an update node, not an output
  Received // of another device
};
constexpr size_t kNumLiveKinds = 13;
llvm::StringRef liveKindText(LiveKind k); // "saved activations"

struct LiveTensor {
  ValueId value; // none for a workspace
  LiveKind kind = LiveKind::Other;
  int64_t bytes = 0;
  uint32_t first = 0, last = 0; // first and last node that it is live at
};

// The live tensors at the peak. Their bytes add up to `bytes`; donated bytes count for the result
// that takes them over.
struct PeakContents {
  int64_t bytes = 0;
  NodeId node; // the first node at the peak; null in a graph without nodes
  std::array<int64_t, kNumLiveKinds> bytesOf{};
  std::vector<LiveTensor> tensors; // largest first
};

// A part of a graph on one device (passes/stages/programs.h) does not say what its nodes stand for;
// the graph does. Node i of the part is the node `of[i]` of the graph.
struct WholeNodes {
  const Graph &whole;
  std::vector<NodeId> of;
};

// The instances of storages and the live bytes while each node runs. Nodes run once each, in the
// order of the graph.
struct LiveSets {
  std::vector<plan::Instance> instances;
  std::vector<int64_t> live; // by node

  ValueId value(const Graph &g, const GraphProblem &p, size_t instance) const {
    const plan::Read &made = instances[instance].made;
    return g.node(p.nodeOf(made.op)).result(made.output);
  }
  LiveKind kind(const Graph &g, const GraphProblem &p, size_t instance) const;
  // The same in a part of a graph, where all is in micro-batches: parts of values are of the kind
  // of the values.
  LiveKind kind(const WholeNodes &whole, const GraphProblem &p, size_t instance) const;
  // The kind by the node's phase and the readers alone, whatever the node stands for.
  LiveKind kindByUse(const Graph &g, const GraphProblem &p, size_t instance) const;
  PeakContents peak(const Graph &g, const GraphProblem &p) const;

private:
  template <typename NodeAt>
  LiveKind kindByUse(size_t instance, const Node &maker, NodeAt node) const;
};

// `p` is the problem of `g`.
LiveSets liveSetsOf(const Graph &g, const GraphProblem &p);

} // namespace isthmus
