// On a quiet machine the threads of a team do not sleep between parallel regions. This counts
// sleeps, since a count says in any machine what a time says in one.

#include "ir/system_limits.h"
#include "runtime/team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <utility>

namespace isthmus {
namespace {

constexpr int kThreads = 2, kSteps = 20, kRegions = 400;

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
  // Where another program had a core, in this step or just before it, sleeping may be right.
  bool wasClean = false;
  for (int i = 0; i < kSteps; ++i) {
    const Switches s = step();
    const bool isClean = s.preemptions == 0;
    if (!std::exchange(wasClean, isClean) || !isClean)
      continue;
    EXPECT_LE(double(s.sleeps) / kRegions, 0.02)
        << s.sleeps << " sleeps in " << kRegions << " regions";
    return;
  }
  GTEST_SKIP() << "machine busy: in no two of " << kSteps
               << " steps did no other program take a core";
}

} // namespace
} // namespace isthmus
