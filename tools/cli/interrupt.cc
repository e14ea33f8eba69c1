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
std::atomic<bool> isInVain{false}; // there is no result that an interrupt would lose

constexpr useconds_t kPatience = 500'000; // microseconds

void onPatienceEnds(int) {
  if (noting == 0 || !hasHappened || !isInVain)
    return;
  talk("error: interrupted before a plan was found\n");
  std::_Exit(kInterrupted);
}
} // namespace

void onInterrupt() {
  if (noting == 0 || hasHappened.exchange(true))
    std::_Exit(kInterrupted);
  if (isInVain) {
    std::signal(SIGALRM, onPatienceEnds);
    ::ualarm(kPatience, 0);
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
  isInVain = false;
  if (hasHappened) // LLVM removes its handler before it calls it
    llvm::sys::SetInterruptFunction(onInterrupt);
}
bool InterruptNoted::happened() const { return hasHappened; }
// (What notes interrupts around a search has results of its own.)
void InterruptNoted::setHasResult(bool hasResult) { isInVain = !hasResult && noting == 1; }

} // namespace isthmus
