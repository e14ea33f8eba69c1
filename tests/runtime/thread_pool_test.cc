// Parallel regions on our own threads: those of kernels, and not those of a host program.

#include "runtime/team.h"
#include "runtime/thread_pool.h"

#include <atomic>
#include <gtest/gtest.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace isthmus {
namespace {

// The numbers of the threads that ran a region.
std::multiset<int> numbersOf(int size) {
  std::vector<std::atomic<int>> ran(64);
#pragma omp parallel num_threads(size)
  ++ran[size_t(omp_get_thread_num())];
  std::multiset<int> out;
  for (size_t i = 0; i < ran.size(); ++i)
    for (int k = 0; k < ran[i]; ++k)
      out.insert(int(i));
  return out;
}

TEST(Regions, HaveTheThreadsThatTheyAskFor) {
  TeamSize team(3);
  EXPECT_EQ(omp_get_max_threads(), 3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(numbersOf(1), (std::multiset<int>{0}));
    EXPECT_EQ(numbersOf(4), (std::multiset<int>{0, 1, 2, 3}));
    EXPECT_EQ(numbersOf(2), (std::multiset<int>{0, 1}));
  }
}

TEST(Regions, WaitAtBarriers) {
  TeamSize team(4);
  std::atomic<int> arrived = 0, early = 0;
#pragma omp parallel num_threads(4)
  for (int round = 1; round <= 200; ++round) {
    ++arrived;
#pragma omp barrier
    if (arrived < 4 * round)
      ++early;
#pragma omp barrier
  }
  EXPECT_EQ(arrived, 800);
  EXPECT_EQ(early, 0);
}

TEST(Regions, WithinOthersHaveOneThread) {
  TeamSize team(2);
  std::atomic<int> outer = 0, inner = 0;
#pragma omp parallel num_threads(2)
  {
    ++outer;
#pragma omp parallel num_threads(2)
    inner += omp_get_num_threads();
#pragma omp barrier
    outer += 10 * omp_get_num_threads();
  }
  EXPECT_EQ(outer, 2 + 10 * 2 * 2);
  EXPECT_EQ(inner, 2);
}

TEST(Regions, OfSeveralCallersRunAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int size : {2, 3, 4})
    callers.emplace_back([&right, size] {
      TeamSize team(size);
      for (int round = 0; round < 50; ++round)
        right += numbersOf(size).size() == size_t(size);
    });
  for (std::thread &t : callers)
    t.join();
  EXPECT_EQ(right, 150);
}

TEST(Regions, OfAHostKeepItsNumberOfThreads) {
  omp_set_num_threads(5);
  {
    TeamSize team(2);
    EXPECT_EQ(omp_get_max_threads(), 2);
    {
      TeamSize inner(1);
      EXPECT_EQ(omp_get_max_threads(), 1);
    }
    EXPECT_EQ(omp_get_max_threads(), 2);
  }
  EXPECT_EQ(omp_get_max_threads(), 5);
  EXPECT_FALSE(runsKernels);
  EXPECT_EQ(numbersOf(5).size(), 5u);
}

TEST(Regions, OfAForkedProcessHaveThreads) {
  {
    TeamSize team(3);
    EXPECT_EQ(numbersOf(3).size(), 3u);
  }
  pid_t child = fork();
  if (child == 0) {
    TeamSize team(3);
    _exit(numbersOf(3).size() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

} // namespace
} // namespace isthmus
