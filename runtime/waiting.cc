#include "runtime/waiting.h"

#include "runtime/wait_policy.h"
#include <atomic>
#include <mutex>
#include <sys/resource.h>
#include <time.h>

namespace isthmus {
namespace {

using Clock = Waiting::Clock;
using Nanoseconds = Waiting::Nanoseconds;

// The process has one policy: whether the machine is busy is one fact for all of its teams, stages
// and ranks' waits.
std::mutex mutex; // of the policy
WaitPolicy policy;
std::atomic<int64_t> spinNanoseconds{WaitPolicy::kQuietSpin.count()};

void observe(const WaitPolicy::Stretch &s) {
  // Another thread that observes at this moment tells the same.
  std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
  if (!lock)
    return;
  policy.observe(s);
  spinNanoseconds.store(policy.spinTime().count(), std::memory_order_relaxed);
}

// For how long the calling thread has run. The times of getrusage are as old as the last tick.
Nanoseconds timeRun() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + Nanoseconds(t.tv_nsec);
}

// What a thread is measured by: since `start` it ran from `ran` on, went to sleep `sleeps` times by
// its own choice, for `asleep` in all.
struct Meter {
  static constexpr Nanoseconds kLeast{1'000'000};

  bool hasBegun = false;
  Clock::time_point start;
  Nanoseconds ran{0}, asleep{0};
  long blocked = 0; // times that the system put the thread to sleep, for whatever reason
  long sleeps = 0;

  void awake(Clock::time_point now) {
    if (hasBegun && now - start < kLeast + asleep)
      return;
    rusage used;
    if (getrusage(RUSAGE_THREAD, &used) != 0)
      return;
    const Nanoseconds ranNow = timeRun();
    // A thread that waited for a file or a lock was not kept from running: such a time tells
    // nothing.
    if (hasBegun && used.ru_nvcsw - blocked <= sleeps)
      observe({now.time_since_epoch(), now - start - asleep, ranNow - ran});
    *this = {true, now, ranNow, Nanoseconds{0}, used.ru_nvcsw, 0};
  }
};
thread_local Meter meter;

} // namespace

Nanoseconds Waiting::spinTime() {
  return Nanoseconds(spinNanoseconds.load(std::memory_order_relaxed));
}

void Waiting::awake(Clock::time_point now) { meter.awake(now); }

void Waiting::slept(Clock::time_point begin, Clock::time_point end) {
  meter.asleep += end - begin;
  ++meter.sleeps;
}

} // namespace isthmus
