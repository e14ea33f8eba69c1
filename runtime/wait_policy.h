// How long a thread spins before it sleeps, as a function of what the machine let the threads have.
//
// On a quiet machine every thread of a team has a core of its own. There, spinning takes nothing
// from anybody, and sleeping costs a wake-up for each parallel region, which is dear on a virtual
// machine. On a busy machine a thread that spins takes the core from one that has work to do, which
// may be the very one that is waited for; there, a thread spins for about as long as a wake-up
// takes and then sleeps, which costs at most twice the better of the two (ski rental; Karlin et al.
// 1994, "Competitive randomized algorithms for nonuniform problems").
//
// The two are told apart by the share of their time for which awake threads did not run: other
// threads had the core, or a control group's time was used up. A thread on a core of its own lacks
// nearly nothing; beside one other program, a thread that spins lacks half. Threads that sleep
// often lack less than that, because the kernel favours them when they wake. So a busy time ends on
// trial, and each trial that fails soon makes the next one wait twice as long.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace isthmus {

class WaitPolicy {
public:
  using Nanoseconds = std::chrono::nanoseconds;

  // A stretch of time in which one thread was awake, and for how long of it the thread ran. It ends
  // at `end`, by a clock of which only differences count.
  struct Stretch {
    Nanoseconds end, awake, ran;
  };

  // Takes the stretches of all threads into account; recent ones weigh most.
  void observe(const Stretch &s) {
    const double awake = std::clamp(double(s.awake.count()), 0.0, double(kMemory.count()));
    if (awake == 0)
      return;
    const double share = std::clamp(1 - double(s.ran.count()) / double(s.awake.count()), 0.0, 1.0);
    lacking_ += (share - lacking_) * awake / double(kMemory.count());
    if (!isBusy_ && lacking_ > kBusyShare) {
      const bool failedSoon = changed_ && s.end - *changed_ < kTrial;
      busyTime_ = failedSoon ? std::min(2 * busyTime_, kMostBusy) : kLeastBusy;
      change(s.end);
    } else if (isBusy_ && lacking_ < kQuietShare && s.end - *changed_ >= busyTime_) {
      change(s.end);
    }
  }

  bool isBusy() const { return isBusy_; }
  Nanoseconds spinTime() const { return isBusy_ ? kBusySpin : kQuietSpin; }

  // The awake time after which a stretch is forgotten. Two threads that are awake all the time take
  // half as long. A time slice of the kernel is 3 to 6 milliseconds, so that some fit in.
  static constexpr Nanoseconds kMemory{20'000'000};
  // A short interruption, as by a daemon, is no sign: it takes 2.5 ms at once to exceed the first
  // share. Beside one program for two threads on two cores, each thread lacks a third.
  static constexpr double kBusyShare = 0.125, kQuietShare = 0.05;
  // A trial of quiet that lasts as long has not failed. A busy time lasts for the first at least,
  // and for the second if no trial would have failed.
  static constexpr Nanoseconds kTrial{100'000'000}, kLeastBusy{20'000'000}, kMostBusy{160'000'000};
  // No gap within a step is longer than the first, but for long nodes that have one thread. The
  // second is about a wake-up.
  static constexpr Nanoseconds kQuietSpin{5'000'000}, kBusySpin{20'000};

private:
  void change(Nanoseconds now) {
    isBusy_ = !isBusy_;
    changed_ = now;
  }

  double lacking_ = 0; // the share of awake time for which threads did not run
  bool isBusy_ = false;
  std::optional<Nanoseconds> changed_; // when isBusy_ changed last
  Nanoseconds busyTime_ = kLeastBusy;  // the least length of this busy time
};

} // namespace isthmus
