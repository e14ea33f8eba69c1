#include "tools/cli/interrupt.h"

#include "llvm/Support/Signals.h"
#include <atomic>
#include <cstdlib>

namespace isthmus {
namespace {
std::atomic<int> noting{0}; // how many live
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
  if (--noting == 0 && hasHappened) // LLVM takes its handlers away before it calls one
    llvm::sys::SetInterruptFunction(onInterrupt);
}
bool InterruptNoted::happened() const { return hasHappened; }

} // namespace isthmus
