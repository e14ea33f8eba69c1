// What holds for the process as a whole, whatever the verb: how it starts, and how it ends where
// nobody planned it.
#pragma once

namespace isthmus {

// At the start of main. From here on
// - a reader that goes away is an error of the write and not a signal,
// - descriptors that the process was started without do not become those of files,
// - memory that cannot be had, an exception of a library, a library that gives up and a crash end
//   the process with a message and exit code 5; temporary files are removed.
void guardProcess();

// At the end of main: gives the exit code back, after what was meant for standard output is
// written. An error there is told, and is one of the command where nothing else was wrong.
int endProcess(int exitCode);

} // namespace isthmus
