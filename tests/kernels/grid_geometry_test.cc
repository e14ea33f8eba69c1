// Tests how launches are divided into blocks and where elements lie, for random sizes, without
// kernels.

#include "kernels/cuda/grid.h"
#include "kernels/cuda/strided.h"
#include <gtest/gtest.h>
#include <random>

namespace isthmus::cuda {
namespace {

using element::broadcastStrides;
using element::Walk;

std::mt19937_64 bits(1);
int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }

// runEach on a GPU must reach every index once.
TEST(Geometry, CoversEveryIndexOnce) {
  for (int trial = 0; trial < 300; ++trial) {
    int64_t n = trial < 260 ? trial * 7 : 1 + below(200000);
    int multiprocessors = 1 + int(below(4));
    Geometry g = geometryOfEach(n, multiprocessors);
    ASSERT_LE(g.lanes, kMaxLanes);
    ASSERT_LE(g.blocks, INT32_MAX);
    std::vector<int> times(size_t(n), 0);
    for (int64_t block = 0; block < g.blocks; ++block)
      for (int thread = 0; thread < g.lanes; ++thread)
        for (int64_t i = block * g.lanes + thread; i < n; i += g.blocks * g.lanes)
          ++times[size_t(i)];
    for (int t : times)
      ASSERT_EQ(t, 1) << n;
  }
}

// runTeams must reach every team once.
TEST(Geometry, CoversEveryTeamOnce) {
  for (int trial = 0; trial < 300; ++trial) {
    int64_t teams = 1 + below(3000), length = below(700);
    Geometry g = geometryOfTeams(teams, length, 1);
    std::vector<int> times(size_t(teams), 0);
    for (int64_t block = 0; block < g.blocks; ++block)
      for (int y = 0; y < g.teams; ++y)
        for (int64_t t = block * g.teams + y; t < teams; t += g.blocks * g.teams)
          ++times[size_t(t)];
    for (int t : times)
      ASSERT_EQ(t, 1) << teams << " of " << length;
  }
}

TEST(Geometry, TeamsFitTheirRows) {
  for (int64_t length : {0, 1, 31, 32, 33, 127, 128, 511, 512, 1000, 100000}) {
    Geometry g = geometryOfTeams(50, length, 2);
    EXPECT_EQ(g.lanes & (g.lanes - 1), 0); // each step of a fold halves them
    EXPECT_GE(g.lanes, 32);
    EXPECT_LE(g.lanes * g.teams, kMaxLanes);
    EXPECT_TRUE(g.teams == 1 || g.lanes == 32); // a team of several warps waits for its whole block
    EXPECT_EQ(geometryOfTeams(50, length, 100).lanes, g.lanes); // on any device
  }
  EXPECT_LE(geometryOfTeams(int64_t(1) << 40, 1, 200).blocks, INT32_MAX);
}

// Tensors with more elements than an int can count, on the smallest and the largest GPU, divided
// into elements, packs or rows of any length. Launches stay within the limits (CUDA C++ Programming
// Guide, compute capabilities), and indices stay within 64 bits.
TEST(Geometry, StaysWithinTheLimitsOfLaunches) {
  constexpr int64_t kMostBlocks = INT32_MAX, kMostThreads = 1024;
  for (int64_t n : {int64_t(1) << 31, (int64_t(1) << 31) + 1, int64_t(1) << 33, int64_t(1) << 40})
    for (int multiprocessors : {1, 16, 132, 192}) {
      auto check = [&](const Geometry &g, int64_t count, int64_t perBlock) {
        EXPECT_GE(g.blocks, 1);
        EXPECT_LE(g.blocks, kMostBlocks);
        EXPECT_LE(int64_t(g.lanes) * g.teams, kMostThreads);
        EXPECT_LE(int64_t(g.lanes) * g.teams, kMaxLanes); // __launch_bounds__
        // The last index that a thread computes before it stops.
        EXPECT_LT(count, INT64_MAX - g.blocks * perBlock);
      };
      for (int64_t pack : {1, 2, 4, 8}) {
        Geometry g = geometryOfEach((n + pack - 1) / pack, multiprocessors);
        check(g, n, g.lanes);
      }
      for (int64_t length = 1; length <= n; length *= 8) {
        Geometry g = geometryOfTeams(n / length, length, multiprocessors);
        check(g, n / length, g.teams);
      }
    }
}

TEST(Divisor, DividesAsTheProcessorDoes) {
  for (int trial = 0; trial < 200000; ++trial) {
    int64_t by = 1 + below(int64_t(1) << (1 + below(61)));
    int64_t i = below(int64_t(1) << (1 + below(62)));
    if (trial % 4 == 0) // at multiples of the divisor
      i = std::max<int64_t>(0, by * below(INT64_MAX / by) - below(2));
    if (trial % 5 == 0)
      i = INT64_MAX - below(4);
    int64_t rest = -1;
    ASSERT_EQ(Divisor(by)(i, &rest), i / by) << i << " / " << by;
    ASSERT_EQ(rest, i % by);
  }
}

TEST(Strided, FindsEveryElement) {
  for (int trial = 0; trial < 500; ++trial) {
    Dims dims, from;
    for (int64_t axis = below(6); axis > 0; --axis) {
      dims.push_back(1 + below(4));
      from.push_back(below(3) ? dims.back() : 1);
    }
    Walk<2> walk(dims, {broadcastStrides(from, dims), element::denseStrides(dims)});
    ASSERT_TRUE(Strided<2>::takes(walk));
    Strided<2> strided(walk);
    int64_t i = 0;
    walk.forEachRow(0, walk.elements(), [&](const std::array<int64_t, 2> &at, int64_t n) {
      for (int64_t k = 0; k < n; ++k, ++i) {
        int64_t got[2];
        strided.at(i, got);
        ASSERT_EQ(got[0], at[0] + k * walk.rowStride(0));
        ASSERT_EQ(got[1], i);
      }
    });
    ASSERT_EQ(i, walk.elements());
  }
}

} // namespace
} // namespace isthmus::cuda
