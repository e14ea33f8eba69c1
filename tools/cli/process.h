// The start and the end of the process, whatever the verb, also where it ends unexpectedly.
#pragma once

namespace isthmus {

// Called at the start of main. After it
// - files do not get the descriptors of missing standard streams,
// - lack of memory, an exception of a library and a library that ends the process end it with a
//   message and exit code 5; temporary files are removed.
void guardProcess();

// Called at the start of main, after guardProcess. After it
// - Ctrl-C and the like call `onInterrupt`; Ctrl-\ and what the parent process ignores have their
//   usual effect,
// - a file that grows over the process's limit causes an error of the write and no signal,
// - a crash ends the process with a message that says which, and exit code 5.
// In all cases temporary files are removed.
void guardSignals();

// Called at the end of main: writes the rest of standard output and returns the exit code. An error
// in writing is reported, and becomes the command's exit code if nothing else was wrong.
int endProcess(int exitCode);

} // namespace isthmus
