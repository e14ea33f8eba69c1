// The fixed policies of gradient-checkpointing (memory_saving_gradients.py), on any graph.
//
//   none        keeps everything
//   speed       keeps what convolutions and matrix products give
//   memory      keeps about sqrt(N) bottlenecks, or whole frontiers of segments
//   collection  keeps what is marked #checkpoint, or what a list of names says
//
// A policy chooses checkpoints; of all other forward values that the backward pass reads, those are
// recomputed whose recomputation lowers the peak. Where gradients are differentiated again, earlier
// gradients count as forward values (forwardPart). Every choice is first scored on the problem. If
// it saves no memory against no checkpointing, it is not taken and nothing is recomputed.
#pragma once

#include "ir/diagnostics.h"
#include "passes/checkpoint/bottleneck_choice.h"
#include "passes/checkpoint/scored_choices.h"

namespace isthmus {

enum class Policy : uint8_t { None, Speed, Memory, Collection };
llvm::ArrayRef<llvm::StringRef> policyNames(); // in the order of Policy
std::optional<Policy> parsePolicy(llvm::StringRef name);
llvm::StringRef policyName(Policy p);
PlannedBy plannedBy(Policy p);

// The mark of a node whose results policy `collection` keeps.
constexpr const char *kCheckpointMark = "checkpoint";

struct PolicyOptions {
  Policy policy = Policy::None;
  // For Collection: a list of names as matchValues takes it. Empty: the values marked #checkpoint.
  std::string checkpoints;
  int64_t smallestCheckpoint = kSmallestCheckpoint; // for Memory: elements of a bottleneck
};

struct PolicyResult {
  plan::Schedule schedule;
  plan::Evaluation baseline; // of the schedule in source order
  plan::Evaluation planned;
  // The values that were chosen, in order; empty if no choice was taken. What is kept besides, as
  // it takes no memory at the peak, is not among them.
  std::vector<ValueId> checkpoints;
  PlannedBy policyUsed = PlannedBy::None;
  std::vector<Remark> notes; // for the user: checkpoints that were left out or replaced
};

// `g` is differentiated and has no clones; `p` is its problem. Errors: a pattern that matches
// nothing, `collection` without a mark, no checkpoint left, nothing to checkpoint.
llvm::Expected<PolicyResult> planPolicy(const Graph &g, const GraphProblem &p,
                                        const PolicyOptions &options);

// The same where several devices run the graph, which has messages then.
struct PolicyInParts {
  std::vector<CheckpointPlan> parts; // by part
  plan::Evaluation baseline;         // the largest peak, and the costs of all
  std::vector<ValueId> checkpoints;
  PlannedBy policyUsed = PlannedBy::None;
  std::vector<Remark> notes;
};
// Each part of `parts` is planned for by itself, and together they are all nodes of `g`.
llvm::Expected<PolicyInParts> planPolicyInParts(const Graph &g, const GraphProblem &p,
                                                llvm::ArrayRef<ProblemPart> parts,
                                                const PolicyOptions &options);

} // namespace isthmus
