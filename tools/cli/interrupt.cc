#include "tools/cli/interrupt.h"

#include "llvm/Support/Signals.h"
#include <atomic>
#include <cstdlib>

namespace isthmus {
namespace {
std::atomic<int> noting{0}; // the number of objects that note interrupts
std::atomic<bool> hasHappened{false};
} // namespace

void onInterrupt() {
  if (noting == 0 || hasHappened.exchange(true))
    std::_Exit(130);
}

InterruptNoted::InterruptNoted() {
  if (noting == 0)
    hasHappened = false;
  ++noting;
}
InterruptNoted::~InterruptNoted() {
  if (--noting == 0 && hasHappened) // LLVM removes its handler before it calls it
    llvm::sys::SetInterruptFunction(onInterrupt);
}
bool InterruptNoted::happened() const { return hasHappened; }

} // namespace isthmus
