// A training run between two steps, as a file: what the graph carries from step to step, and where
// in the run that is. A run that goes on from it gives the bits of one that never stopped.
#pragma once

#include "ir/graph.h"
#include "ir/safetensors.h"
#include "runtime/executor.h"

namespace isthmus {

// Where a run is: all that it draws (the order of examples, noise, what dropout drops) is a
// function of the seed and the step.
struct RunState {
  uint64_t seed = 0;
  int64_t step = 0; // steps done
  // Of the step: epochs done, and examples of the next that were seen.
  int64_t epoch = 0, position = 0;
  // What a run that goes on must have in common.
  int64_t examples = 0, batch = 0;
  std::string optimizer;
};

// Whether a file was made by `saveCheckpoint`, and not by somebody else.
bool isCheckpoint(const Safetensors &file);

// Parameters and states of `e`, which runs `g`, in a safetensors file: whole or not at all, and not
// at all where one of them is no number (NaN, an infinity).
llvm::Error saveCheckpoint(const std::string &path, const Graph &g, Executor &e,
                           const RunState &state);

// Where the run was that wrote the file. An error if that was none.
llvm::Expected<RunState> readCheckpoint(const std::string &path);
// An error if a run like `now` cannot go on from there.
llvm::Error checkGoesOn(const std::string &path, const RunState &saved, const RunState &now);
// `e` holds what the file has. An error if these are not the tensors that `g` carries.
llvm::Error restore(const std::string &path, const Graph &g, Executor &e);

} // namespace isthmus
