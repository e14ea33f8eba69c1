// On a quiet machine the threads of a team do not sleep between parallel regions. This counts
// sleeps, since a count says in any machine what a time says in one.

#include "ir/system_limits.h"
#include "runtime/team.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <sys/resource.h>

namespace isthmus {
namespace {

constexpr int kThreads = 2, kWindows = 100, kSteps = 5, kRegions = 400;
// In the steps of a window: one in fifty regions.
constexpr long kMostSleeps = kSteps * kRegions / 50;

// Some 20 microseconds.
double work(int n) {
  double x = 1;
  for (int i = 0; i < n; ++i)
    x = x * 0.999 + 0.001;
  return x;
}

struct Switches {
  long sleeps = 0, preemptions = 0; // of all threads of the team
};

Switches switches() {
  Switches s;
#pragma omp parallel num_threads(kThreads)
  {
    rusage used;
    getrusage(RUSAGE_THREAD, &used);
#pragma omp critical
    {
      s.sleeps += used.ru_nvcsw;
      s.preemptions += used.ru_nivcsw;
    }
  }
  return s;
}

Switches step() {
  const Switches before = switches();
  double sum = 0;
  for (int region = 0; region < kRegions; ++region) {
#pragma omp parallel num_threads(kThreads) reduction(+ : sum)
    sum += work(5000);
    // What one thread does between regions: longer than a wake-up takes.
    sum += work(region % 8 == 0 ? 100'000 : 2000);
  }
  EXPECT_GT(sum, 0);
  const Switches after = switches();
  return {after.sleeps - before.sleeps, after.preemptions - before.preemptions};
}

TEST(Sleeps, AreNoneBetweenRegionsOfAQuietMachine) {
  if (availableCores() < kThreads)
    GTEST_SKIP() << "one core: a team of two does not spin";
  TeamSize team(kThreads);
  // Where another program has a core, sleeping may be right, and stays so for as long as the policy
  // remembers it; a hypervisor that takes a core shows in no count of this process. So one window
  // of all has to be without sleeps, not each.
  int cleanWindows = 0;
  long fewestSleeps = std::numeric_limits<long>::max();
  for (int i = 0; i < kWindows && fewestSleeps > kMostSleeps; ++i) {
    Switches s;
    for (int j = 0; j < kSteps; ++j) {
      const Switches ofStep = step();
      s.sleeps += ofStep.sleeps;
      s.preemptions += ofStep.preemptions;
    }
    cleanWindows += s.preemptions == 0;
    fewestSleeps = std::min(fewestSleeps, s.sleeps);
  }
  if (fewestSleeps > kMostSleeps && cleanWindows < kWindows / 4)
    GTEST_SKIP() << "machine busy: only " << cleanWindows << " of " << kWindows
                 << " windows were without other programs";
  EXPECT_LE(fewestSleeps, kMostSleeps) << "sleeps in " << kSteps * kRegions << " regions";
}

} // namespace
} // namespace isthmus
