// The processes that run this command together, where mpirun started it (docs/stages.md). All of them
// read the same files and come to the same plan. The first one writes the files and speaks; each one
// reports its own errors.
#pragma once

#include "passes/compile/compile.h"
#include "runtime/process_group.h"

namespace isthmus {

// Null if this process is alone.
ProcessGroup *processGroup();

// Called at the start of main, on the thread that runs the command. Error: mpirun started several
// processes, and they cannot talk with one another.
llvm::Error joinProcesses();

// Called at the end of main, with the command's exit code, which it returns. If it is not 0, all
// processes end.
int leaveProcesses(int exitCode);

// Divides the step among the processes, unless the options or the devices in the file do.
void divideAmongProcesses(const Graph &g, CompileOptions &o);

} // namespace isthmus
