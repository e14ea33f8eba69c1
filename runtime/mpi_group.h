// The processes that OpenMPI's mpirun started.
#pragma once

#include "runtime/process_group.h"

namespace isthmus {

// Whether mpirun started this process beside others.
bool isOneOfSeveral();

// Joins them. Call it once, from the thread that makes all calls from then on. Errors: OpenMPI's
// library is not there, or does not start.
llvm::Expected<std::unique_ptr<ProcessGroup>> joinMpiGroup();

} // namespace isthmus
