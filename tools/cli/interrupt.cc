#include "tools/cli/interrupt.h"

#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "llvm/Support/Signals.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <unistd.h>

namespace isthmus {
namespace {
std::atomic<int> noting{0}; // the number of objects that note interrupts
std::atomic<bool> hasHappened{false};
std::atomic<bool> hasNoResult{false}; // an interrupt would lose no result

// Microseconds from an interrupt to the end of a search without a result.
constexpr useconds_t kGrace = 500'000;

// Before a call that does not return, AddressSanitizer takes a lock of its allocator, which the
// code that the signal interrupted may hold.
#define ISTHMUS_SIGNAL_HANDLER __attribute__((no_sanitize("address")))

ISTHMUS_SIGNAL_HANDLER void onGraceEnds(int) {
  if (noting == 0 || !hasHappened || !hasNoResult)
    return;
  talk("error: interrupted before a plan was found\n");
  std::_Exit(kInterrupted);
}
} // namespace

ISTHMUS_SIGNAL_HANDLER void onInterrupt() {
  if (noting == 0 || hasHappened.exchange(true))
    std::_Exit(kInterrupted);
  if (hasNoResult) {
    std::signal(SIGALRM, onGraceEnds);
    ::ualarm(kGrace, 0);
  }
}

InterruptNoted::InterruptNoted() {
  if (noting == 0)
    hasHappened = false;
  ++noting;
}
InterruptNoted::~InterruptNoted() {
  if (--noting > 0)
    return;
  hasNoResult = false;
  if (hasHappened) // LLVM removes its handler before it calls it
    llvm::sys::SetInterruptFunction(onInterrupt);
}
bool InterruptNoted::happened() const { return hasHappened; }
// (What notes interrupts around a search has results of its own.)
void InterruptNoted::setHasResult(bool hasResult) { hasNoResult = !hasResult && noting == 1; }

} // namespace isthmus
