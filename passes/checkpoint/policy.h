// The fixed policies of gradient-checkpointing (memory_saving_gradients.py), on any graph.
//
//   none        keeps everything
//   speed       keeps what convolutions and matrix products give
//   memory      keeps about sqrt(N) bottlenecks
//   collection  keeps what is marked #checkpoint, or what a list of names says
//
// A policy chooses checkpoints; all other forward values that the backward pass reads are
// recomputed. Every choice is first scored on the problem. If it saves no memory against no
// checkpointing, it is not taken and nothing is recomputed.
#pragma once

#include "passes/rewrite/problem.h"

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
};

struct PolicyResult {
  plan::Schedule schedule;
  plan::Evaluation baseline; // of the schedule in source order
  plan::Evaluation planned;
  std::vector<ValueId> checkpoints; // kept, in order; empty if no choice was taken
  PlannedBy policyUsed = PlannedBy::None;
  std::vector<std::string> notes;   // for the user: checkpoints that were left out or replaced
};

// `g` is differentiated and has no clones; `p` is its problem. Errors: a pattern that matches
// nothing, `collection` without a mark, no checkpoint left, nothing to checkpoint.
llvm::Expected<PolicyResult> planPolicy(const Graph &g, const GraphProblem &p,
                                        const PolicyOptions &options);

// By value: whether it depends on a parameter, or on an input that the graph differentiates by.
// Every policy keeps the values that do not.
std::vector<bool> dependsOnParameters(const Graph &g);

} // namespace isthmus
