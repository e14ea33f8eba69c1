#include "tools/cli/process.h"

#include "ir/host_memory.h"
#include "tools/cli/bug.h"
#include "tools/cli/console.h"
#include "tools/cli/interrupt.h"
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
  talk(processName());
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
    } catch (const OutOfHostMemory &e) {
      giveUp(e.what());
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

struct Crash {
  int signal;
  const char *what;
};
// (A library uses memory that it did not get, as oneDNN does when it compiles a kernel.)
constexpr Crash kCrashes[] = {
    {SIGSEGV, "a read or write of an invalid address (SIGSEGV), for want of memory perhaps"},
    {SIGBUS, "a page that could not be read or written (SIGBUS): a full or failing disk perhaps"},
    {SIGILL, "an instruction that this processor does not have (SIGILL)"},
    {SIGFPE, "an invalid division of whole numbers (SIGFPE)"},
    {SIGABRT, "a failed assertion, or a library that gave up (SIGABRT)"},
    {SIGTRAP, "a trap (SIGTRAP)"},
    {SIGSYS, "a system call that is not allowed (SIGSYS)"}};

void onCrash(int signal) {
  talk(processName());
  talk("error: internal: the program crashed: ");
  for (const Crash &c : kCrashes)
    if (c.signal == signal)
      talk(c.what);
  talk("; please report this with the command line\n");
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  std::_Exit(kFailed);
}

void onCpuLimit(int) { giveUp("the process used the CPU time that it may have (ulimit -t)"); }

// Ctrl-\\: the process ends by the signal, as its parent expects, without temporary files.
void onQuit(int signal) {
  llvm::sys::RunInterruptHandlers();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Replaces the handlers of LLVM for signals that are no interrupts; its stack for them stays.
void handle(int signal, void (*handler)(int)) {
  struct sigaction old, action = {};
  if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN)
    return; // the parent process wants it ignored
  action.sa_handler = handler;
  action.sa_flags = int(SA_NODEFER | SA_RESETHAND | SA_ONSTACK);
  ::sigaction(signal, &action, nullptr);
}

void handleSignals() {
  std::signal(SIGPIPE, SIG_IGN); // a write to a reader that left then fails
  std::signal(SIGXFSZ, SIG_IGN); // a write then fails: "File too large"
#ifndef ISTHMUS_SANITIZED        // sanitizers report crashes in more detail
  for (const Crash &c : kCrashes)
    handle(c.signal, onCrash);
#endif
  handle(SIGXCPU, onCpuLimit);
  handle(SIGQUIT, onQuit);
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
  std::set_new_handler(outOfMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { outOfMemory(); });
  llvm::install_fatal_error_handler([](void *, const char *message, bool) { giveUp(message); });
  std::set_terminate(onTerminate);
  std::atexit(onExit);
}

void guardSignals() {
  llvm::sys::SetInterruptFunction(onInterrupt); // LLVM has removed temporary files by then
  handleSignals();
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
