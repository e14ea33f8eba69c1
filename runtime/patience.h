// How to wait for another process or device by asking again and again: awake at first, for what
// comes at once, while others may have the core, which may be the ones that are waited for; then
// asleep. For how long a thread is awake is decided as for teams of threads (wait_policy.h).
#pragma once

#include "runtime/waiting.h"
#include <sched.h>
#include <time.h>

namespace isthmus {

class Patience {
public:
  void pause() {
    const Waiting::Clock::time_point now = Waiting::Clock::now();
    if (!isAsleep_) {
      Waiting::awake(now);
      sched_yield();
      isAsleep_ = now - start_ > Waiting::spinTime();
      return;
    }
    // Sleeps are short, since a large message may move only while both ends are awake.
    constexpr timespec kSleep{0, 100'000}; // nanoseconds
    nanosleep(&kSleep, nullptr);
    Waiting::slept(now, Waiting::Clock::now());
  }
  bool isAsleep() const { return isAsleep_; }

private:
  bool isAsleep_ = false;
  const Waiting::Clock::time_point start_ = Waiting::Clock::now();
};

} // namespace isthmus
