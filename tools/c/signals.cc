// LLVM's support library takes over the process's signals to remove files that are being written.
// In this library signals belong to the host. Where the file system allows, a file has no name
// until it is whole; elsewhere a signal may leave a temporary file behind.

#include "llvm/Support/Signals.h"
#include "llvm/ADT/StringRef.h"

namespace llvm {
void initSignalsOptions() {} // of LLVM's command line, which is not used

namespace sys {
bool RemoveFileOnSignal(StringRef, std::string *) { return false; }
void DontRemoveFileOnSignal(StringRef) {}
void RunInterruptHandlers() {}
void CleanupOnSignal(uintptr_t) {}
void AddSignalHandler(SignalHandlerCallback, void *) {}
void SetInfoSignalFunction(void (*)()) {}
void DisableSystemDialogsOnCrash() {}
void unregisterHandlers() {}
} // namespace sys
} // namespace llvm
