// Assigned offsets are legal. For few buffers the arena is the smallest possible; for many it is
// the peak or slightly more.

#include "passes/place/place.h"
#include "tests/passes/hard_to_place.h"

#include <gtest/gtest.h>
#include <numeric>
#include <pthread.h>
#include <random>

using namespace isthmus;

namespace {

using Rng = std::mt19937_64;
uint64_t below(Rng &r, uint64_t n) { return r() % n; }

// Sizes are multiples of 64, to which the CPU's target rounds.
std::vector<Buffer> randomBlocks(Rng &rng, size_t most, uint32_t steps) {
  std::vector<Buffer> buffers;
  for (size_t k = 0, n = 1 + below(rng, most); k < n; ++k) {
    uint32_t begin = below(rng, steps), end = begin + 1 + below(rng, steps - begin);
    buffers.push_back({int64_t(64 * (1 + below(rng, 30))), begin, end});
  }
  return buffers;
}

int64_t peakOf(const std::vector<Buffer> &buffers) {
  int64_t peak = 0;
  for (const Buffer &at : buffers) { // the peak is reached where a buffer begins
    int64_t live = 0;
    for (const Buffer &b : buffers)
      live += b.begin <= at.begin && at.begin < b.end ? b.bytes : 0;
    peak = std::max(peak, live);
  }
  return peak;
}

bool conflict(const Buffer &a, const Buffer &b) { return a.begin < b.end && b.begin < a.end; }

// Offsets are in [0, top) and aligned as the sizes are, and buffers that are live together do not
// overlap.
void expectLegal(const std::vector<Buffer> &buffers, int64_t top) {
  int64_t unit = 0;
  for (const Buffer &b : buffers)
    unit = std::gcd(unit, b.bytes);
  for (const Buffer &a : buffers) {
    ASSERT_GE(a.offset, 0);
    ASSERT_EQ(a.offset % unit, 0);
    ASSERT_LE(a.offset + a.bytes, top);
    for (const Buffer &b : buffers)
      ASSERT_FALSE(&a != &b && conflict(a, b) && a.offset < b.offset + b.bytes &&
                   b.offset < a.offset + a.bytes);
  }
}

// Tries first fit in every order. In the order of the offsets of an optimal placement, first fit
// places no buffer higher.
int64_t leastArena(std::vector<Buffer> buffers) {
  int64_t least = INT64_MAX;
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    int64_t top = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      Buffer &b = buffers[order[k]];
      b.offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t m = 0; m < k; ++m) {
          const Buffer &o = buffers[order[m]];
          if (conflict(o, b) && o.offset < b.offset + b.bytes && b.offset < o.offset + o.bytes) {
            b.offset = o.offset + o.bytes;
            moved = true;
          }
        }
      }
      top = std::max(top, b.offset + b.bytes);
    }
    least = std::min(least, top);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(OffsetAssignment, BuffersAliveTogetherDoNotOverlap) {
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    std::vector<Buffer> buffers = randomBlocks(rng, 60, 5 + below(rng, 40));
    int64_t peak = peakOf(buffers), top = assignOffsets(buffers, peak);
    EXPECT_GE(top, peak);
    expectLegal(buffers, top);
  }
}

TEST(OffsetAssignment, SmallInstancesAreOptimal) {
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) {
    std::vector<Buffer> buffers = randomBlocks(rng, 7, 4 + below(rng, 6));
    if (below(rng, 2)) // few sizes: many ways for a buffer to lie on others
      for (Buffer &b : buffers)
        b.bytes = int64_t(1 + below(rng, 4));
    int64_t peak = peakOf(buffers), top = assignOffsets(buffers, peak);
    expectLegal(buffers, top);
    ASSERT_EQ(top, leastArena(buffers)) << "instance " << i;
  }
}

// Three buffers are live at each step, so that there are as many rows of buffers without gaps.
TEST(OffsetAssignment, ManyBuffersOfOneSizeReachThePeak) {
  constexpr uint32_t kSteps = 400'000;
  constexpr int64_t kBytes = 1024;
  Rng rng(5);
  std::vector<Buffer> buffers;
  for (int row = 0; row < 3; ++row)
    for (uint32_t begin = 0, end; begin < kSteps; begin = end) {
      end = std::min(begin + 1 + uint32_t(below(rng, 5)), kSteps);
      buffers.push_back({kBytes, begin, end});
    }
  std::shuffle(buffers.begin(), buffers.end(), rng);
  ASSERT_EQ(assignOffsets(buffers, 3 * kBytes), 3 * kBytes);
  auto place = [](const Buffer &b) { return std::pair(b.offset, b.begin); };
  std::sort(buffers.begin(), buffers.end(),
            [&](const Buffer &a, const Buffer &b) { return place(a) < place(b); });
  for (size_t k = 1; k < buffers.size(); ++k)
    if (buffers[k - 1].begin < buffers[k].begin)
      ASSERT_LE(buffers[k - 1].end, buffers[k].begin);
    else
      ASSERT_GE(buffers[k].offset - buffers[k - 1].offset, kBytes);
}

// Saved values that are freed in reverse order, gradients that stay, short-lived values, and
// workspaces.
TEST(OffsetAssignment, TrainingStepsAreWithinOnePercent) {
  Rng rng(4);
  for (int i = 0; i < 10; ++i) {
    uint32_t layers = 20 + below(rng, 200), end = 2 * layers;
    std::vector<Buffer> buffers;
    auto add = [&](uint32_t first, uint32_t last) {
      int64_t most = below(rng, 3) ? 1 << 16 : 64;
      buffers.push_back({int64_t(64 * (1 + below(rng, most))), first, std::min(last, end) + 1});
    };
    for (uint32_t k = 0; k < layers; ++k) {
      uint32_t back = end - 1 - k;
      add(k, back);
      add(back, end);
      for (uint32_t step : {k, back}) {
        add(step, step + 1);
        add(step, step);
      }
    }
    int64_t peak = peakOf(buffers), top = assignOffsets(buffers, peak);
    EXPECT_LE(double(top), 1.01 * double(peak)) << layers << " layers";
    expectLegal(buffers, top);
  }
}

// Cuts a rectangle of steps and bytes in two repeatedly, at whole steps and at multiples of 64, so
// that a placement without gaps exists. Then some buffers are made a little smaller.
std::vector<Buffer> cutRectangle(Rng &rng, int pieces, uint32_t steps, int64_t bytes) {
  std::vector<Buffer> buffers{{bytes, 0, steps}};
  while (int(buffers.size()) < pieces) {
    size_t largest = 0;
    auto area = [&](size_t i) {
      return buffers[i].bytes * int64_t(buffers[i].end - buffers[i].begin);
    };
    for (size_t i = 1; i < buffers.size(); ++i)
      if (area(i) > area(largest))
        largest = i;
    Buffer &b = buffers[largest], other = b;
    const uint32_t life = b.end - b.begin;
    const int64_t units = b.bytes / 64;
    if (life > 1 && (units < 2 || below(rng, 2))) {
      b.end = b.begin + 1 + uint32_t(below(rng, life - 1));
      other.begin = b.end;
    } else if (units > 1) {
      b.bytes = 64 * (1 + int64_t(below(rng, units - 1)));
      other.bytes -= b.bytes;
    } else {
      break;
    }
    buffers.push_back(other);
  }
  std::shuffle(buffers.begin(), buffers.end(), rng);
  return buffers;
}

TEST(OffsetAssignment, RectanglesCutToPiecesAreFound) {
  Rng rng(5);
  for (int i = 0; i < 40; ++i) {
    const int64_t height = 64 << 14;
    std::vector<Buffer> buffers = cutRectangle(rng, 10 + int(below(rng, 70)), 300, height);
    int64_t top = assignOffsets(buffers, height);
    EXPECT_EQ(top, height) << "instance " << i << " of " << buffers.size();
    expectLegal(buffers, top);
  }
}

// As many pieces as a network has buffers, without any slack.
TEST(OffsetAssignment, RectanglesCutToHundredsOfPiecesAreFound) {
  Rng rng(10);
  for (int i = 0; i < 10; ++i) {
    const int64_t height = 64 << 14;
    std::vector<Buffer> buffers = cutRectangle(rng, 100 + int(below(rng, 300)), 1000, height);
    int64_t top = assignOffsets(buffers, height, {.effort = 10});
    EXPECT_EQ(top, height) << "instance " << i << " of " << buffers.size();
    expectLegal(buffers, top);
  }
}

// Each fills 12 bytes in all of 10 steps. Fillings of the skyline end at 13 bytes, however many.
TEST(OffsetAssignment, WhereOnlyTheExactSearchFits) {
  const std::vector<Buffer> instances[] = {hardToPlace(),
                                           {{9, 0, 1},
                                            {3, 0, 2},
                                            {1, 1, 9},
                                            {9, 9, 10},
                                            {5, 1, 3},
                                            {3, 1, 4},
                                            {3, 2, 6},
                                            {5, 3, 5},
                                            {3, 8, 10},
                                            {3, 4, 6},
                                            {3, 6, 8},
                                            {3, 6, 9},
                                            {5, 6, 9},
                                            {5, 5, 6}},
                                           {{4, 0, 2},
                                            {7, 0, 1},
                                            {8, 6, 7},
                                            {7, 3, 5},
                                            {2, 2, 5},
                                            {1, 3, 6},
                                            {1, 2, 10},
                                            {5, 7, 8},
                                            {1, 0, 3},
                                            {1, 7, 10},
                                            {7, 1, 3},
                                            {7, 5, 6},
                                            {1, 2, 10},
                                            {2, 7, 10},
                                            {5, 8, 10},
                                            {2, 5, 10}}};
  for (std::vector<Buffer> buffers : instances) {
    ASSERT_EQ(peakOf(buffers), 12);
    EXPECT_EQ(assignOffsets(buffers, 12), 12);
    expectLegal(buffers, 12);
  }
}

// In an optimal placement the step in the middle begins with a gap: the buffer that is live there
// alone lies on the other two.
TEST(OffsetAssignment, LeavesAGapWhereOneIsNeeded) {
  std::vector<Buffer> buffers = {{2, 0, 2}, {1, 2, 3}, {2, 1, 4}, {2, 3, 5}, {1, 0, 1}, {1, 4, 5}};
  EXPECT_EQ(assignOffsets(buffers, peakOf(buffers)), leastArena(buffers));
  expectLegal(buffers, INT64_MAX);
}

// An effort's work begins with the work of every lower effort.
TEST(OffsetAssignment, MoreEffortNeverGivesALargerArena) {
  Rng rng(11);
  for (int i = 0; i < 12; ++i) {
    std::vector<Buffer> buffers = i % 3 == 0   ? cutRectangle(rng, 200, 400, 64 << 14)
                                  : i % 3 == 1 ? randomBlocks(rng, 300, 60)
                                               : randomBlocks(rng, 3000, 500);
    const int64_t peak = peakOf(buffers), enough = below(rng, 2) ? 0 : peak + peak / 50;
    int64_t least = INT64_MAX;
    for (double effort : {0.001, 0.002, 0.005, 0.01, 0.03, 0.031, 0.1, 0.15, 0.3}) {
      const int64_t top = assignOffsets(buffers, peak, {.enough = enough, .effort = effort});
      EXPECT_LE(top, least) << "instance " << i << " at " << effort;
      least = top;
      expectLegal(buffers, top);
    }
  }
}

TEST(OffsetAssignment, RectanglesWithSlackAreWithinOnePercent) {
  Rng rng(6);
  for (int i = 0; i < 10; ++i) {
    const int64_t height = 64 << 16;
    std::vector<Buffer> buffers = cutRectangle(rng, 60, 300, height);
    for (Buffer &b : buffers)
      if (below(rng, 2))
        b.bytes -= b.bytes / 10 / 64 * 64;
    int64_t peak = peakOf(buffers), top = assignOffsets(buffers, peak);
    EXPECT_LE(double(top), 1.01 * double(peak)) << "instance " << i;
    expectLegal(buffers, top);
  }
}

// Large tensors that are recomputed at all steps of a recurrent network, among many long-lived
// small ones of one size.
TEST(OffsetAssignment, ManyBuffersOfFewSizesAreWithinTwoPercent) {
  Rng rng(7);
  for (int i = 0; i < 3; ++i) {
    std::vector<Buffer> buffers;
    const uint32_t steps = 1000;
    for (uint32_t t = 0; t < steps; ++t) {
      uint32_t life = below(rng, 4) ? below(rng, 20) : below(rng, 400);
      int64_t unit = 1 << 19;
      int64_t bytes = below(rng, 8) ? unit : below(rng, 3) ? 4 * unit : 8 * unit;
      buffers.push_back({bytes, t, std::min(t + life, steps) + 1});
      if (t % 40 == 0)
        buffers.push_back({32 * unit, t, t + uint32_t(below(rng, 60)) + 1});
    }
    int64_t peak = peakOf(buffers), top = assignOffsets(buffers, peak);
    EXPECT_LE(double(top), 1.02 * double(peak)) << "instance " << i;
    expectLegal(buffers, top);
  }
}

// Thousands of buffers leave time for few fillings, as when the planner places several plans in
// turn.
TEST(OffsetAssignment, FewFillingsComeWithinTwoPercent) {
  Rng rng(7);
  const uint32_t steps = 3000;
  for (int i = 0; i < 6; ++i) {
    std::vector<Buffer> buffers;
    auto add = [&](int64_t bytes, uint32_t first, uint64_t life) {
      buffers.push_back({bytes, first, std::min(first + uint32_t(life), steps) + 1});
    };
    for (uint32_t t = 0; t < steps; ++t) {
      const int64_t unit = 1 << 19;
      const uint64_t life = below(rng, 4) ? below(rng, 12) : below(rng, 1500);
      add(below(rng, 8) ? unit : below(rng, 3) ? 4 * unit : 8 * unit, t, life);
      if (t % 40 == 0)
        add(32 * unit, t, below(rng, 120));
    }
    int64_t peak = peakOf(buffers), top = assignOffsets(buffers, peak, {.effort = 0.2});
    EXPECT_LE(double(top), 1.016 * double(peak)) << "instance " << i;
  }
}

// A recurrent network: forward steps save small storages, which backward steps free in turn, and
// some of which they make again a few steps before. They add to sums of weights' gradients, all
// large, and each sum takes a new place.
TEST(OffsetAssignment, LargeSumsOfManyStepsLieInLayers) {
  Rng rng(3);
  constexpr uint32_t kSteps = 32, kSums = 6, kOps = 24;
  constexpr int64_t kUnit = 1 << 12;
  std::vector<Buffer> buffers;
  const uint32_t turn = kSteps * kOps, end = 2 * turn;
  auto add = [&](int64_t units, uint32_t first, uint32_t last) {
    buffers.push_back({kUnit * units, first, std::min(last, end)});
  };
  for (uint32_t t = 0; t < kSteps; ++t) {
    const uint32_t back = end - (t + 1) * kOps; // where the step's backward part begins
    for (uint32_t k = 0; k < kOps; ++k) {
      const uint32_t first = t * kOps + k, last = back + uint32_t(below(rng, kOps)) + 1;
      const int64_t units = below(rng, 5) ? 1 : 4;
      if (below(rng, 2)) {
        add(units, first, last);
      } else {
        add(units, first, first + 1 + uint32_t(below(rng, kOps)));
        add(units, std::max(turn, back - uint32_t(below(rng, 3 * kOps))), last);
      }
    }
    for (uint32_t j = 0; j < kSums; ++j) {
      const uint32_t product = back + uint32_t(below(rng, kOps - 1)), sum = product + 1;
      add(32, product, sum + 1);
      add(32, sum, sum + kOps + 1 + uint32_t(below(rng, 9)));
    }
  }
  const int64_t peak = peakOf(buffers),
                top = assignOffsets(buffers, peak, {.enough = peak, .effort = 1e-3});
  EXPECT_EQ(top, peak);
  expectLegal(buffers, top);
}

// The same where what the backward part of a step makes lives longer: storages of one size, of
// which many live long, lie between large ones of several sizes, and have to make way for them.
TEST(OffsetAssignment, SmallBuffersMakeWayForLargeOnes) {
  constexpr uint32_t kSteps = 24, kOps = 40, turn = kSteps * kOps, end = 2 * turn;
  constexpr int64_t kUnit = 1 << 18;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Rng rng(seed);
    std::vector<Buffer> buffers;
    auto add = [&](int64_t units, uint32_t first, uint32_t last) {
      buffers.push_back({kUnit * units, first, std::min(last, end)});
    };
    for (uint32_t t = 0; t < kSteps; ++t) {
      const uint32_t back = end - (t + 1) * kOps; // where the step's backward part begins
      for (uint32_t k = 0; k < kOps; ++k) {
        const uint32_t first = t * kOps + k, last = back + uint32_t(below(rng, kOps)) + 1;
        if (below(rng, 3) == 0) {
          add(1, first, last);
        } else {
          add(1, first, first + 1 + uint32_t(below(rng, 2 * kOps)));
          add(1, std::max(turn, back - uint32_t(below(rng, 6 * kOps))), last);
        }
        if (below(rng, 4) == 0)
          add(below(rng, 5) ? 16 : 20, back + k, back + k + 1 + uint32_t(below(rng, 4 * kOps)));
      }
    }
    const int64_t peak = peakOf(buffers),
                  top = assignOffsets(buffers, peak, {.enough = peak, .effort = 0.5});
    EXPECT_LE(double(top), 1.005 * double(peak)) << "seed " << seed;
    expectLegal(buffers, top);
  }
}

TEST(OffsetAssignment, NothingIsPlacedBeyond62Bits) {
  constexpr int64_t kHalf = int64_t(1) << 61;
  std::vector<Buffer> fit = {{kHalf, 0, 2}, {kHalf, 0, 2}};
  EXPECT_EQ(assignOffsets(fit, 2 * kHalf), 2 * kHalf);
  expectLegal(fit, 2 * kHalf);
  std::vector<Buffer> tooMuch = {{kHalf, 0, 2}, {kHalf, 0, 2}, {kHalf, 0, 2}};
  EXPECT_EQ(assignOffsets(tooMuch, 3 * kHalf), INT64_MAX);
}

// A host may call from a thread with a small stack, whatever the number of buffers.
TEST(OffsetAssignment, TakesLittleOfTheStack) {
  Rng rng(9);
  std::vector<Buffer> buffers = cutRectangle(rng, 3000, 6000, 64 << 16);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  auto work = [](void *of) -> void * {
    assignOffsets(*static_cast<std::vector<Buffer> *>(of), 64 << 16, {.effort = 1});
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, work, &buffers), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  expectLegal(buffers, INT64_MAX);
}

TEST(OffsetAssignment, EnoughIsEnough) {
  Rng rng(8);
  std::vector<Buffer> buffers = cutRectangle(rng, 100, 300, 64 << 16);
  int64_t enough = (64 << 16) / 20 * 21;
  int64_t top = assignOffsets(buffers, 64 << 16, {.enough = enough});
  EXPECT_LE(top, enough);
  expectLegal(buffers, top);
}

// A caller that says stop is not asked again, and gets a legal placement at once, whatever the
// effort.
TEST(OffsetAssignment, EndsWhenTheCallerSaysSo) {
  Rng rng(21);
  for (int stopAt : {1, 2, 5}) {
    std::vector<Buffer> buffers = cutRectangle(rng, 5000, 2000, 64 << 14); // not found for long
    int asked = 0;
    const int64_t top =
        assignOffsets(buffers, 64 << 14, {.effort = 1e9, .goOn = [&] { return ++asked < stopAt; }});
    EXPECT_EQ(asked, stopAt);
    ASSERT_LT(top, INT64_MAX);
    expectLegal(buffers, top);
  }
}

} // namespace
