#include "tools/cli/interrupt.h"

#include "llvm/Support/Signals.h"
#include <atomic>
#include <cstdlib>

namespace isthmus {
namespace {
std::atomic<bool> isNoting{false}, hasHappened{false};
} // namespace

void onInterrupt() {
  if (!isNoting || hasHappened.exchange(true))
    std::_Exit(130);
}

InterruptNoted::InterruptNoted() {
  hasHappened = false;
  isNoting = true;
}
InterruptNoted::~InterruptNoted() {
  isNoting = false;
  if (hasHappened) // LLVM takes its handlers away before it calls one
    llvm::sys::SetInterruptFunction(onInterrupt);
}
bool InterruptNoted::happened() const { return hasHappened; }

} // namespace isthmus
