// LLVM's support library takes over the process's signals to remove files that are being written.
// In this library signals are the host's affair: a file has no name until it is whole, where the
// file system can do that, and else a signal may leave a temporary one behind.

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
