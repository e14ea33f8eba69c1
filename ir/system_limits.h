// What the system lets this process use: memory and cores. A container, a batch system or a shell
// may allow far less than the machine has. Linux ends a process that takes more memory than its
// control group may have, so what is about to be allocated is compared with this first.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace isthmus {

struct AvailableMemory {
  int64_t bytes = INT64_MAX; // as it is, if the system tells nothing
  // What bounds it, such as "the control group '/job' may have 200.0 MiB"; empty: the machine.
  std::string limit;

  std::string str() const; // "190.2 MiB available (the control group '/job' may have 200.0 MiB)"
};

// The least of the free memory of the machine, of what the control groups of this process may still
// take, and of what its address space may still grow. `promised` bytes were allocated and are still
// to be written: the system counts them as free. Paths begin at `root`, for tests.
AvailableMemory availableMemory(int64_t promised = 0, llvm::StringRef root = "");

// The cores that threads of this process can keep busy: those that it may run on, but no more than
// its control groups have time for (a part of a core counts as one). At least 1.
int availableCores(llvm::StringRef root = "");

} // namespace isthmus
