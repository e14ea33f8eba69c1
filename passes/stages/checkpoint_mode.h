// Which micro-batches recompute, as torchgpipe has it (Kim et al., torchgpipe, 2020).
#pragma once

#include "passes/stages/place_problem.h"

namespace isthmus {

enum class CheckpointMode : uint8_t {
  Always,     // every micro-batch keeps what a stage receives, and recomputes the rest
  ExceptLast, // every one but the last, whose backward pass begins at once
  Never       // nothing is recomputed
};
llvm::StringRef checkpointModeName(CheckpointMode m); // "always", "except_last", "never"

// The schedule of one place's problem: a forward value of a micro-batch that recomputes is
// evicted after its last forward reader, and recomputed once, before the first backward node that
// reads it, or before a wait in front of that node. Values that all micro-batches share, and what
// the place receives, stay. A mode that recomputes is taken only where it needs less memory than
// those that recompute less.
plan::Schedule checkpointed(const Graph &g, const GraphProblem &p, const PlaceProblem &place,
                            CheckpointMode mode);

// The schedule of the mode itself, whatever it needs.
plan::Schedule inCheckpointMode(const Graph &g, const GraphProblem &p, const PlaceProblem &place,
                                CheckpointMode mode, std::optional<uint32_t> lastMicroBatch);
std::optional<uint32_t> lastMicroBatch(const Graph &g); // none without micro-batches

} // namespace isthmus
