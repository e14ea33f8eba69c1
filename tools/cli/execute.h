// Running a planned graph.
#pragma once

#include "tools/session/open.h"
#include "tools/cli/compiled.h"
#include "tools/cli/feeds.h"

namespace isthmus {

struct ExecuteOptions {
  int steps = 1;
  uint64_t seed = 0;
  GivenInputs inputs; // others get their defaults
};

// `c` and `device` must outlive the session.
llvm::Expected<std::unique_ptr<Session>> fedSession(const Compiled &c, Device &device,
                                                    const ExecuteOptions &o);

// Repeats the same step from the same state; fills the run's part of `report`. Returns the session
// for its outputs. `c` and `device` must outlive it.
llvm::Expected<std::unique_ptr<Session>> execute(const Compiled &c, Device &device,
                                                 const ExecuteOptions &o, Report &report);

} // namespace isthmus
