// The start and the end of the process, whatever the verb, also where it ends unexpectedly.
#pragma once

namespace isthmus {

// Called at the start of main. After it
// - a reader that closes its end causes an error of the write and no signal,
// - files do not get the descriptors of missing standard streams,
// - lack of memory, an exception of a library, a library that ends the process and a crash end
//   the process with a message and exit code 5; temporary files are removed.
void guardProcess();

// Called at the end of main: writes the rest of standard output and returns the exit code. An error
// in writing is reported, and becomes the command's exit code if nothing else was wrong.
int endProcess(int exitCode);

} // namespace isthmus
