// Why a plan is as it is: what becomes of each tensor, and what other choices would have cost.
#pragma once

#include "passes/checkpoint/policy.h"
#include "passes/inspect/live_sets.h"

namespace isthmus {

// Between two uses of a tensor; `from` and `to` are nodes.
struct IdleInterval {
  uint32_t from = 0, to = 0;
  int64_t live = 0; // the most that is live in between
};

// Evicting a tensor in an idle interval, all else being as it is.
struct Remake {
  unsigned runs = 0; // beside its own, what it is made from where that is gone by then
  double us = 0;
  int64_t peakBytes = 0;
};

struct TensorFate {
  enum class Kind : uint8_t {
    Kept,       // made once, saved for the backward pass
    Recomputed, // made more than once
    Fetched,    // copied to the host's memory and back; perhaps made more than once, too
    Rebuilt,    // from what was made of it; perhaps made more than once, too
    Output,     // stays to the end
    Passing,    // made once by a forward node, and read by forward nodes alone
    Gradient    // made once by a backward or an update node
  };
  static constexpr size_t kNumKinds = 7;
  ValueId value; // in the graph that is explained, as the first run makes it
  Kind kind = Kind::Passing;
  int64_t bytes = 0;
  unsigned recomputations = 0, fetches = 0, rebuildings = 0;
  double linkUs = 0;            // a copy over the link, one way
  double runUs = 0;             // one run of its node
  double addedUs = 0;           // of its node's recomputations
  double rebuildUs = 0;         // of its inverses
  uint32_t first = 0, last = 0; // of all its copies
  bool mayRunAgain = false, isCheckpoint = false, isAtPeak = false;
  bool dependsOnParameters = true;
  std::optional<IdleInterval> kept; // between two uses of one copy: where the most is live
  std::vector<IdleInterval> away;   // times between copies in which there is none
  std::optional<Remake> remake;     // of `kept`, of tensors that are told at length
};

// A bottleneck: an articulation point of the forward part.
struct BottleneckFate {
  enum class Why : uint8_t {
    Taken,       // the policy keeps it; by price: it is kept
    End,         // the loss or another output
    Small,       // as in BottleneckChoice
    KindOfOp,    //
    SameStorage, //
    NotRead,     //
    InSegment,   //
    NotProduct,  // `speed` keeps convolutions and matrix products
    NotNamed,    // neither listed nor marked
    NotInCut,    // whole frontiers are kept, and it is in none
    NoGain,      // the policy would save no memory beside no checkpointing
    Price        // by what it takes and what it costs to make again: see the tensor's fate
  };
  Why why = Why::Price;
  TensorFate tensor; // of the storage that the bottleneck lies in
  ValueId value;
};

struct ExplainOptions {
  Policy policy = Policy::None;     // that was asked for
  std::string policyUsed;           // as the report has it; "budget" for a budget
  std::vector<ValueId> checkpoints; // of the graph that is explained
  size_t top = 10;                  // so many tensors are told, the largest first
  std::string of;                   // instead, these: a list of names as matchValues takes it
};

struct Explanation {
  PeakContents baseline; // of the original graph
  PeakContents planned;
  double baselineUs = 0, plannedUs = 0;
  struct Total {
    size_t tensors = 0;
    int64_t bytes = 0;
  };
  std::array<Total, TensorFate::kNumKinds> totals{}; // by TensorFate::Kind
  size_t recomputations = 0;                         // runs beyond the first, views left out
  std::vector<TensorFate> tensors; // those told: kept and recomputed ones, or those asked for
  std::vector<BottleneckFate> bottlenecks; // in order
  double checkpointTarget = 0;             // of the policy `memory`: about so many checkpoints
  size_t checkpointStep = 1;               // every so many bottlenecks
};

// `g` is a differentiated graph, rewritten or not; `original` what it was rewritten from. Errors: a
// node that the target cannot run, a name that matches nothing.
llvm::Expected<Explanation> explain(const Graph &g, const Graph &original, const Target &target,
                                    const ExplainOptions &options);

} // namespace isthmus
