#include "tools/cli/process.h"

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
#include <new>
#include <unistd.h>

namespace isthmus {
namespace {

std::atomic<bool> hasEnded{false};

constexpr int kFailed = 5;

// From any thread, and without memory.
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
  // (Nothing may leave this handler, so the exception is looked at here.)
  if (std::exception_ptr e = std::current_exception()) {
    try {
      std::rethrow_exception(e);
    } catch (const std::bad_alloc &) {
      outOfMemory();
    } catch (const std::exception &known) {
      talk("error: internal: an exception was not expected; please report this: ");
      giveUp(known.what());
    } catch (...) {
    }
  }
  giveUp("internal: an exception was not expected; please report this");
}

// The library has told why.
void onExit() {
  if (!hasEnded)
    giveUp("a library ended the process, for want of memory or threads perhaps; --threads=1 takes "
           "the least");
}

// Opened the wrong way round, so that reading and writing are errors as they were.
void openStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

} // namespace

void guardProcess() {
  openStandardDescriptors();
  std::signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(outOfMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { outOfMemory(); });
  std::set_terminate(onTerminate);
  std::atexit(onExit);
}

int endProcess(int exitCode) {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (out.has_error()) {
    std::error_code ec = out.error();
    out.clear_error(); // left to the stream's destructor, it would end the process
    int code =
        Console::get().report(makeError("cannot write 'standard output': {0}", ec.message()));
    exitCode = exitCode ? exitCode : code;
  }
  hasEnded = true;
  return exitCode;
}

} // namespace isthmus
