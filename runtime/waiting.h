// The waits of this process's threads, and what they learn together about the machine.
#pragma once

#include <chrono>

namespace isthmus {

// Measures for how long the calling thread is awake and runs, and tells the process's WaitPolicy.
// Each thread has its own; threads call it where they wait, and it reads the thread's clocks at
// most once a millisecond.
class Waiting {
public:
  using Clock = std::chrono::steady_clock;
  using Nanoseconds = std::chrono::nanoseconds;

  // How long a thread of this process spins before it sleeps, at this moment.
  static Nanoseconds spinTime();

  // The calling thread is awake at `now`.
  static void awake(Clock::time_point now);
  // The calling thread was asleep, because it chose to, from `begin` to `end`.
  static void slept(Clock::time_point begin, Clock::time_point end);
};

} // namespace isthmus
