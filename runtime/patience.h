// How to wait for another process or device by asking again and again: turning at first, for what
// comes at once; then letting others have the core, which may be the ones that are waited for; then
// asleep.
#pragma once

#include <chrono>
#include <sched.h>
#include <time.h>

namespace isthmus {

class Patience {
public:
  void pause() {
    if (++tries_ < kTurns)
      return;
    if (!isAsleep_) {
      sched_yield();
      isAsleep_ = Clock::now() - start_ > kAwake;
      return;
    }
    // Sleeps are short, since a large message may move only while both ends are awake.
    constexpr timespec kSleep{0, 100'000}; // nanoseconds
    nanosleep(&kSleep, nullptr);
  }
  bool isAsleep() const { return isAsleep_; }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kTurns = 100;
  static constexpr std::chrono::microseconds kAwake{2000};
  int tries_ = 0;
  bool isAsleep_ = false;
  const Clock::time_point start_ = Clock::now();
};

} // namespace isthmus
