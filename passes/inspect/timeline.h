// A step as blocks of memory over its nodes: what a picture of the step is drawn from.
#pragma once

#include "ir/layout.h"
#include "passes/inspect/live_sets.h"

namespace isthmus {

// Bytes of the arena that one storage or one workspace takes for a stretch of nodes. A storage that
// donates its bytes ends where the result that takes them over begins; if it is larger than the
// result, a block of one node stands for the rest.
struct Block {
  ValueId value; // none for a workspace
  NodeId maker;
  LiveKind kind = LiveKind::Other;
  int64_t offset = 0; // from the arena's start; Layout::kPersistent where no layout is known
  int64_t bytes = 0;  // more than 0
  uint32_t begin = 0, end = 0; // nodes, half-open
};

// Kinds of bytes in a snapshot of an allocator. They follow those of LiveKind.
constexpr LiveKind kAllocated = LiveKind(kNumLiveKinds), // holds a tensor
    kAwaitsFree = LiveKind(kNumLiveKinds + 1),           // freed, but a stream may still use it
    kUnused = LiveKind(kNumLiveKinds + 2);               // in a segment, and holds nothing
constexpr size_t kNumBlockKinds = kNumLiveKinds + 3;

// The blocks of a step. At each node the bytes of the blocks that are live add up to `live`.
struct Timeline {
  std::vector<Block> blocks; // ordered by the node that makes them
  std::vector<int64_t> live; // by node
  // By kind and node; empty for kinds without a block. The kinds add up to `live`.
  std::array<std::vector<int64_t>, kNumBlockKinds> liveOf;
  std::vector<double> us;                     // by node, by the target's costs
  std::vector<std::vector<uint32_t>> readers; // by value: nodes that read it or a view of it
  int64_t arenaBytes = 0;

  uint32_t peakNode() const; // the first at the peak; 0 in a graph without nodes

  void add(const Block &b); // nothing if the block is empty
  // Adds the blocks of an instance: `b`, which has its offset, and whose life is set here.
  void add(Block b, const plan::Instance &instance, const std::vector<plan::Instance> &all);
  // Orders the blocks, and sets the live bytes of a step of so many nodes.
  void finish(size_t numNodes);
};

// `layout` is that of `g` on the target; null if offsets do not matter. `whole`: `g` is a part of a
// graph. Errors: a node that the target cannot run.
llvm::Expected<Timeline> timelineOf(const Graph &g, const Layout *layout, const Target &target,
                                    const WholeNodes *whole = nullptr);

} // namespace isthmus
