// Explains a plan: how each tensor is handled, and what other choices would have cost.
#pragma once

#include "passes/checkpoint/policy.h"
#include "passes/inspect/live_sets.h"

namespace isthmus {

// A gap between two uses of a tensor; `from` and `to` are nodes.
struct IdleInterval {
  uint32_t from = 0, to = 0;
  int64_t live = 0; // the most live bytes strictly between the two nodes
};

// The effect of evicting a tensor in an idle interval, with the rest of the plan unchanged.
struct Eviction {
  unsigned runs = 0; // steps added: the tensor's own, and those of operands that are no longer live
  double us = 0;
  int64_t peakBytes = 0;
};

struct TensorDecision {
  enum class Kind : uint8_t {
    Kept,       // made once, and saved for the backward pass
    Recomputed, // made more than once by its node
    Fetched,    // copied to the host's memory and back; may also be recomputed
    Rebuilt,    // made again by an inverse; may also be recomputed
    Encoded,    // a smaller value is kept in its place; may also be recomputed
    Output,     // live to the end of the step
    Passing,    // made once by a forward node, not read by the backward pass
    Gradient    // made once by a backward or an update node
  };
  static constexpr size_t kNumKinds = 8;
  ValueId value; // in the graph that is explained: the first instance
  Kind kind = Kind::Passing;
  int64_t bytes = 0;
  unsigned recomputations = 0, fetches = 0, rebuildings = 0;
  double linkUs = 0;            // time of a copy over the link, one way
  double runUs = 0;             // time of one run of its node
  double addedUs = 0;           // time of all recomputations of its node
  double rebuildUs = 0;         // time of its inverses
  int64_t encodedBytes = 0;     // of its encodings
  uint32_t first = 0, last = 0; // over all its instances
  bool mayRunAgain = false, isCheckpoint = false, isAtPeak = false;
  bool dependsOnParameters = true;
  std::optional<IdleInterval> kept; // the idle interval of an instance with the most live bytes
  std::vector<IdleInterval> away;   // intervals between instances, in which none is live
  std::optional<Eviction> eviction; // for `kept`, and only for tensors that are reported in detail
};

// A bottleneck: an articulation point of the forward part.
struct BottleneckDecision {
  enum class Why : uint8_t {
    Taken,       // the policy keeps it
    End,         // the loss or another output
    Small,       // this and the next four: as in BottleneckChoice
    KindOfOp,    //
    SameStorage, //
    NotRead,     //
    InSegment,   //
    NotProduct,  // `speed` keeps convolutions and matrix products
    NotNamed,    // neither listed nor marked
    NotInCut,    // whole frontiers are kept, and none contains it
    NoGain,      // the policy would save no memory against no checkpointing
    Price        // chosen by its bytes and its cost to rematerialize: see the tensor's decision
  };
  Why why = Why::Price;
  TensorDecision tensor; // for the bottleneck's storage
  ValueId value;
};

// A value of the original whose node runs in chunks.
struct ChunkedValue {
  ValueId value;
  ValueId whole; // what its chunks put together, or add up to; none if it never exists whole
  uint32_t chunks = 0;
  int64_t mostBytes = 0;        // of one chunk
  uint32_t first = 0, last = 0; // the nodes of its chunks
};

struct ExplainOptions {
  Policy policy = Policy::None;     // as requested
  int64_t smallestCheckpoint = kSmallestCheckpoint; // likewise
  PlannedBy policyUsed = PlannedBy::Nothing;
  std::vector<ValueId> checkpoints; // of the graph that is explained
  size_t top = 10;                  // number of tensors to report, largest first
  std::string of; // the tensors to report instead: a list of names as matchValues takes it
};

struct Explanation {
  PeakContents baseline; // of the original graph
  PeakContents planned;
  double baselineUs = 0, plannedUs = 0;
  struct Total {
    size_t tensors = 0;
    int64_t bytes = 0;
  };
  std::array<Total, TensorDecision::kNumKinds> totals{}; // by TensorDecision::Kind
  size_t recomputations = 0;                             // steps that rerun a node, views excluded
  std::vector<TensorDecision> tensors;         // the reported tensors: the largest that are kept or
                                               // rematerialized, or the requested ones
  // Those that never exist whole, the largest ones first, and no more than are reported; or all of
  // those that were requested.
  std::vector<ChunkedValue> chunked;
  std::vector<BottleneckDecision> bottlenecks; // in order
  double checkpointTarget = 0;                 // policy `memory`: approximate number of checkpoints
  size_t checkpointStep = 1; // policy `memory`: every how many bottlenecks one is taken
};

// `g` is a differentiated graph, rewritten or not; `original` is the graph that it was rewritten
// from. Errors: a node that the target cannot run, a name that matches nothing.
llvm::Expected<Explanation> explain(const Graph &g, const Graph &original, const Target &target,
                                    const ExplainOptions &options);

} // namespace isthmus
