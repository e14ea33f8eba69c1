// The options of a search that isthmus_plan_options and isthmus_compile_options share.
#pragma once

#include "passes/plan/planner.h"
#include "tools/c/handles.h"
#include <chrono>
#include <cmath>

namespace isthmus::c {

// The progress of a search for the program: calls its function at most once in `progress_seconds`,
// and cancels where the function or the flag says so.
class Watched {
public:
  template <typename Options>
  explicit Watched(const Options &o)
      : tell_(o.progress), user_(o.user), cancelled_(o.cancelled),
        pause_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(std::min(o.progress_seconds, 1e6)))),
        next_(Clock::now()) {}

  bool isAsked() const { return tell_ || cancelled_; } // otherwise the search always goes on
  bool isCancelled() const { return isCancelled_; }
  // Whether the flag lets the search begin.
  bool begins() {
    isCancelled_ |= cancelled_ && *cancelled_;
    return !isCancelled_;
  }
  bool goesOn(const plan::SearchProgress &now) {
    if (begins() && tell_ && Clock::now() >= next_) {
      callHost([&] { isCancelled_ |= !tell_(user_, now.share, now.cost); });
      next_ = Clock::now() + pause_;
    }
    return !isCancelled_;
  }

private:
  using Clock = std::chrono::steady_clock;
  const isthmus_progress tell_;
  void *const user_;
  const volatile int32_t *const cancelled_;
  const Clock::duration pause_;
  Clock::time_point next_;
  bool isCancelled_ = false;
};

// ISTHMUS_BAD_CALL if a number of the options is negative or not finite, with the names that `all`
// gives.
isthmus_status checkNumbers(llvm::ArrayRef<std::pair<const char *, double>> all,
                            isthmus_error **error);

// The budget of options: bytes if they are not negative, else a share of the baseline, else the
// least that is found.
Budget budgetOf(int64_t bytes, double share);

} // namespace isthmus::c
