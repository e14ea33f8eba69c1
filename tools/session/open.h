// Opens the session of a compiled step.
#pragma once

#include "passes/compile/compile.h"
#include "runtime/session.h"

namespace isthmus {

// `c` and `device` must outlive the session. Errors: those of Session::open.
llvm::Expected<std::unique_ptr<Session>> openSession(const Compiled &c, Device &device,
                                                     uint64_t seed,
                                                     std::vector<Tensor> inputs = {});

} // namespace isthmus
