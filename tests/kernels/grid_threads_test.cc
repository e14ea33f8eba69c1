// Tests the emulated threads of a GPU: waits work in every order, and results that depend on the
// order and waits that never end are found.

#include "kernels/cuda/grid.h"
#include <gtest/gtest.h>
#include <numeric>

namespace isthmus::cuda {
namespace {

class InEveryOrder : public ::testing::TestWithParam<int> {
protected:
  void SetUp() override { emulateInOrder(uint64_t(GetParam())); }
  void TearDown() override { emulateInOrder(0); }
};
INSTANTIATE_TEST_SUITE_P(Orders, InEveryOrder, ::testing::Range(0, 6));

TEST_P(InEveryOrder, EveryIndexRunsOnce) {
  std::vector<int> times(3000, 0);
  forEach({}, 3000, [&](int64_t i) { ++times[size_t(i)]; });
  EXPECT_EQ(times, std::vector<int>(3000, 1));
}

// Sums of rows that one warp folds, and of rows that a block folds.
TEST_P(InEveryOrder, TeamsFoldTheirRows) {
  for (int64_t length : {1, 31, 32, 100, 2000}) {
    std::vector<int64_t> sums(50, -1);
    forEachTeam({}, 50, length, [&](int64_t row, const Team &team) {
      int64_t sum = team.reduce(
          length, int64_t(0), [&](int64_t s, int64_t i) { return s + row * i; },
          [](int64_t a, int64_t b) { return a + b; });
      if (team.isFirst())
        sums[size_t(row)] = sum;
    });
    for (int64_t row = 0; row < 50; ++row)
      EXPECT_EQ(sums[size_t(row)], row * length * (length - 1) / 2) << length;
  }
}

// After a wait, lanes read what other lanes wrote before it.
TEST_P(InEveryOrder, WaitsAreKept) {
  for (int64_t length : {32, 1024}) {
    std::vector<int> neighbour(size_t(length), -1), written(size_t(length), -1);
    forEachTeam({}, 1, length, [&](int64_t, const Team &team) {
      team.forEach(length, [&](int64_t i) { written[size_t(i)] = int(i); });
      team.forEach(length,
                   [&](int64_t i) { neighbour[size_t(i)] = written[size_t((i + 1) % length)]; });
    });
    for (int64_t i = 0; i < length; ++i)
      EXPECT_EQ(neighbour[size_t(i)], (i + 1) % length);
  }
}

// Returns 8 * waits, counted in eight local variables. The functions between the waits have such
// variables too.
int64_t countedWaits(const Team &team, int waits) {
  int64_t own[8] = {};
  for (int i = 0; i < waits; ++i) {
    for (volatile int64_t &each : own)
      each = each + 1;
    if (i % 2 == 0)
      team.wait();
    else
      countedWaits(team, 1);
  }
  return std::accumulate(own, own + 8, int64_t(0));
}

// Each thread has its own stack, which other threads do not change.
TEST_P(InEveryOrder, LocalsAreKept) {
  std::vector<int64_t> ends(256, 0);
  forEachTeam({}, 1, 2000,
              [&](int64_t, const Team &team) { ends[lane()] = countedWaits(team, 1000); });
  EXPECT_EQ(ends, std::vector<int64_t>(256, 8000));
}

// A lane reads what another lane writes, without a wait between them.
TEST(Threads, ARaceShowsInSomeOrder) {
  auto run = [](uint64_t order) {
    emulateInOrder(order);
    std::vector<int> of(256, 0), got(256, 0);
    forEachTeam({}, 1, 1024, [&](int64_t, const Team &) {
      of[lane()] = 1;
      got[lane()] = of[(lane() + 1) % 256];
    });
    emulateInOrder(0);
    return got;
  };
  EXPECT_NE(run(0), run(1));
}

TEST(ThreadsDeathTest, AWaitThatNotAllComeTo) {
  auto halfOfAWarp = [] {
    forEachTeam({}, 1, 1, [](int64_t, const Team &team) {
      if (lane() < 16)
        team.wait();
    });
  };
  EXPECT_DEATH(halfOfAWarp(), "threads wait for others, which have ended");
  auto oneWarpOfABlock = [] {
    forEachTeam({}, 1, 2000, [](int64_t, const Team &team) {
      if (lane() < 32)
        team.wait();
    });
  };
  EXPECT_DEATH(oneWarpOfABlock(), "threads wait for others, which have ended");
}

} // namespace
} // namespace isthmus::cuda
