// Running a planned graph.
#pragma once

#include "runtime/executor.h"
#include "tools/cli/compiled.h"
#include "tools/cli/feeds.h"

namespace isthmus {

struct ExecuteOptions {
  int steps = 1;
  uint64_t seed = 0;
  GivenInputs inputs; // others get their defaults
};

// Makes an executor; feeds its inputs if the device computes. `c` and `device` must outlive it.
llvm::Expected<std::unique_ptr<Executor>> fedExecutor(const Compiled &c, Device &device,
                                                      const ExecuteOptions &o);

// Feeds inputs and repeats the same step from the same state; fills the run's part of `report`, and
// checks the measured peak against the predicted one. Returns the executor for its outputs. `c` and
// `device` must outlive it.
llvm::Expected<std::unique_ptr<Executor>> execute(const Compiled &c, Device &device,
                                                  const ExecuteOptions &o, Report &report);

} // namespace isthmus
