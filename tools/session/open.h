// Opens the session of a compiled step.
#pragma once

#include "passes/compile/compile.h"
#include "runtime/session.h"

namespace isthmus {

// `c` and `device` must outlive the session. Errors: those of Session::open.
//
// With a group, each process runs one of the programs. A step of one device that was not compiled
// to programs runs in every process, whole. Errors also: the processes have compiled different
// steps, hold other inputs, or have other seeds. `sources` say where each input is from, for that
// message (agreement.h).
llvm::Expected<std::unique_ptr<Session>> openSession(const Compiled &c, Device &device,
                                                     uint64_t seed, std::vector<Tensor> inputs = {},
                                                     ProcessGroup *group = nullptr,
                                                     llvm::ArrayRef<std::string> sources = {});

} // namespace isthmus
