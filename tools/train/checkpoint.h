// A file with the state of a training run between two steps: the values that the graph carries from
// step to step, and the position in the run. A resumed run gives the bits of one that never
// stopped.
#pragma once

#include "ir/graph.h"
#include "ir/safetensors.h"
#include "runtime/session.h"

namespace isthmus {

// What a run's bits depend on, by name (run_record.h).
using RunRecord = std::vector<std::pair<std::string, std::string>>;

// A value that is no longer rebuilt by its inverse, since the inverse had too large an error.
struct NotInverted {
  std::string value;
  int64_t step = 0; // the number of steps done when it was found
};

// The position of a run. Everything random in a run (the order of examples, noise, dropout) is a
// function of the seed and the step.
struct RunState {
  uint64_t seed = 0;
  int64_t step = 0; // steps done
  // The position of the step: epochs done, and examples seen of the next one.
  int64_t epoch = 0, position = 0;
  // A resumed run must have the same values of these.
  int64_t examples = 0, batch = 0;
  std::string optimizer;
  // A resumed run that differs in one of these has other bits. Empty in files of older versions.
  RunRecord record;
  std::vector<NotInverted> notInverted; // in the order in which they were found
};

// Whether `writeCheckpoint` wrote the file.
bool isCheckpoint(const Safetensors &file);

struct Checkpoint {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};
// The parameters and states of `session`, which runs `g`. Error if one of them is not finite (NaN,
// an infinity).
llvm::Expected<Checkpoint> takeCheckpoint(const Graph &g, Session &session, const RunState &state);
// Writes it to a safetensors file, whole or not at all.
llvm::Error writeCheckpoint(const std::string &path, const Checkpoint &checkpoint);

// The position of the run that wrote the file. Errors: the file is not a checkpoint; its tensors or
// its metadata do not have the digests that it records.
llvm::Expected<RunState> readCheckpoint(const std::string &path);
// An error if a run like `now` cannot resume from `saved`.
llvm::Error checkGoesOn(const std::string &path, const RunState &saved, const RunState &now);
// Loads the file's tensors into `session`. An error if they are not the tensors that `g` carries.
llvm::Error restore(const std::string &path, const Graph &g, Session &session);

} // namespace isthmus
