#include "tools/cli/process.h"

#include "tools/cli/bug.h"
#include "tools/cli/console.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <malloc.h>
#include <new>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ISTHMUS_SANITIZED
#endif

namespace isthmus {
namespace {

std::atomic<bool> hasEnded{false};

constexpr int kFailed = 5;

// Can be called from any thread, and without memory.
[[noreturn]] void giveUp(llvm::StringRef message) {
  talk("error: ");
  talk(message);
  talk("\n");
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  std::_Exit(kFailed);
}

[[noreturn]] void outOfMemory() {
  giveUp("out of memory: this takes more than the process may have");
}

[[noreturn]] void onTerminate() {
  // (No exception may leave this handler, so it is caught here.)
  if (std::exception_ptr e = std::current_exception()) {
    try {
      std::rethrow_exception(e);
    } catch (const std::bad_alloc &) {
      outOfMemory();
    } catch (const std::exception &known) {
      talk("note: a library says: ");
      talk(known.what());
      talk("\n");
    } catch (...) {
    }
  }
  giveUp("internal: an exception was not expected; please report this");
}

// Called after a failed assertion, or when a library uses memory that it did not get, as oneDNN
// does when it compiles a kernel.
void onCrash(void *) {
  giveUp("internal: the program crashed, for want of memory perhaps; please report this with the "
         "command line");
}

// Called at exit. The library has printed its reason.
void onExit() {
  if (!hasEnded)
    giveUp("a library ended the process, for want of memory or threads perhaps; --threads=1 takes "
           "the least");
}

// Opens missing standard streams in the wrong direction, so that reading and writing still fail.
void openStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

std::atomic<bool> isGuarded{false};

} // namespace

void guardProcess() {
  isGuarded = true;
  guardBugs();
  openStandardDescriptors();
  std::signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(outOfMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { outOfMemory(); });
  llvm::install_fatal_error_handler([](void *, const char *message, bool) { giveUp(message); });
  std::set_terminate(onTerminate);
#ifndef ISTHMUS_SANITIZED // sanitizers report crashes in more detail
  llvm::sys::AddSignalHandler(onCrash, nullptr);
#endif
  std::atexit(onExit);
}

int endProcess(int exitCode) {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (out.has_error()) {
    std::error_code ec = out.error();
    out.clear_error(); // otherwise the stream's destructor would end the process
    int code =
        Console::get().report(makeError("cannot write 'standard output': {0}", ec.message()));
    exitCode = exitCode ? exitCode : code;
  }
  hasEnded = true;
  return exitCode;
}

} // namespace isthmus

// oneDNN allocates by this function and does not check the result.
#ifndef ISTHMUS_SANITIZED
extern "C" int posix_memalign(void **p, size_t alignment, size_t bytes) {
  void *made = memalign(alignment, bytes);
  if (!made && isthmus::isGuarded)
    isthmus::outOfMemory();
  if (!made)
    return ENOMEM;
  *p = made;
  return 0;
}
#endif
