// The planner's evaluation against a slow simulation that shares nothing with it, on random
// problems.

#include "passes/place.h"
#include "passes/plan/keep.h"
#include "tests/passes/random_problem.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace isthmus;
using namespace isthmus::plan;

namespace {

std::vector<std::vector<bool>> randomKeep(const Problem &p, Rng &rng) {
  std::vector<std::vector<bool>> keep;
  uint64_t share = 1 + below(rng, 4);
  for (const Op &op : p.ops) {
    keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()));
    for (size_t o = 0; o < keep.back().size(); ++o)
      keep.back()[o] = below(rng, share) == 0;
  }
  return keep;
}

TEST(Evaluate, AgreesWithTheDefinitionOnRandomProblems) {
  Rng rng(1);
  size_t recomputations = 0;
  for (int i = 0; i < 3000; ++i) {
    Problem p = randomProblem(rng);
    for (const Schedule &s : {sourceOrder(p), scheduleKeeping(p, randomKeep(p, rng))}) {
      Evaluation e = evaluate(p, s);
      ASSERT_EQ(e.error, "") << "problem " << i;
      ASSERT_EQ(e.peakBytes, Slow::peak(p, s)) << "problem " << i;
      recomputations += e.recomputed;
    }
  }
  EXPECT_GT(recomputations, 3000u); // the schedules are worth looking at
}

TEST(Evaluate, NamesWhatIsWrong) {
  Problem p;
  p.ops.resize(2);
  p.ops[0].name = "a";
  p.ops[0].outputBytes = {4};
  p.ops[1].name = "b";
  p.ops[1].inputs = {{0, 0}};
  p.ops[1].outputBytes = {4};
  p.ops[1].recomputable = false;
  p.outputs = {{1, 0}};
  EXPECT_EQ(evaluate(p, {1, 0}).error, "'b' reads 'a' before it has run");
  EXPECT_EQ(evaluate(p, {0}).error, "output 'b' is never computed");
  EXPECT_EQ(evaluate(p, {0, 1, 1}).error, "'b' runs twice, and must not");
  EXPECT_EQ(evaluate(p, {0, 1}).peakBytes, 8);
}

// f1 .. f8 in a chain, 10 bytes each, then a backward chain that reads each in reverse.
TEST(Keep, RecomputesSegmentsOfAChainOnce) {
  Problem p;
  Op in;
  in.persistent = true;
  in.outputBytes = {10};
  p.ops.push_back(in);
  for (uint32_t i = 1; i <= 8; ++i) {
    Op f;
    f.name = "f" + std::to_string(i);
    f.inputs = {{i - 1, 0}};
    f.outputBytes = {10};
    f.cost = 1;
    p.ops.push_back(f);
  }
  for (uint32_t i = 8; i >= 1; --i) {
    Op b;
    b.phase = plan::Phase::Backward;
    b.inputs = {{i, 0}, {uint32_t(p.ops.size()) - 1, 0}};
    b.outputBytes = {10};
    b.cost = 1;
    p.ops.push_back(b);
  }
  p.outputs = {{16, 0}};
  // All kept: eight values, and the two gradients at the first backward op.
  EXPECT_EQ(evaluate(p, sourceOrder(p)).peakBytes, 90);

  std::vector<std::vector<bool>> keep(p.ops.size(), {false});
  keep[4] = {true};
  Schedule s = scheduleKeeping(p, keep);
  Evaluation e = evaluate(p, s);
  // f8 is read while it is there no more: 5, 6, 7, 8 come again from 4; then 1, 2, 3.
  EXPECT_EQ(e.recomputed, 7u);
  EXPECT_EQ(e.cost, 16 + 7);
  EXPECT_LT(e.peakBytes, 90);
}

// Sizes are multiples of 64, as the CPU's target rounds them.
std::vector<Block> randomBlocks(Rng &rng, size_t most, uint32_t steps) {
  std::vector<Block> blocks;
  for (size_t k = 0, n = 1 + below(rng, most); k < n; ++k) {
    uint32_t first = below(rng, steps), last = first + below(rng, steps - first);
    blocks.push_back({int64_t(64 * (1 + below(rng, 30))), first, last});
  }
  return blocks;
}

int64_t peakOf(const std::vector<Block> &blocks) {
  int64_t peak = 0;
  for (const Block &at : blocks) { // it is reached where some block begins
    int64_t live = 0;
    for (const Block &b : blocks)
      live += b.first <= at.first && at.first <= b.last ? b.bytes : 0;
    peak = std::max(peak, live);
  }
  return peak;
}

bool conflict(const Block &a, const Block &b) { return a.first <= b.last && b.first <= a.last; }

// Offsets are in [0, top), and blocks alive together do not overlap.
void expectLegal(const std::vector<Block> &blocks, int64_t top) {
  for (const Block &a : blocks) {
    ASSERT_GE(a.offset, 0);
    ASSERT_LE(a.offset + a.bytes, top);
    for (const Block &b : blocks)
      ASSERT_FALSE(&a != &b && conflict(a, b) && a.offset < b.offset + b.bytes &&
                   b.offset < a.offset + a.bytes);
  }
}

// First fit in every order: in that of an optimal placement's offsets no block ends higher than
// there.
int64_t leastArena(std::vector<Block> blocks) {
  int64_t least = INT64_MAX;
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    int64_t top = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      Block &b = blocks[order[k]];
      b.offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t m = 0; m < k; ++m) {
          const Block &o = blocks[order[m]];
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

TEST(Pack, BlocksAliveTogetherDoNotOverlap) {
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    std::vector<Block> blocks = randomBlocks(rng, 60, 5 + below(rng, 40));
    int64_t peak = peakOf(blocks), top = pack(blocks, peak);
    EXPECT_GE(top, peak);
    expectLegal(blocks, top);
  }
}

TEST(Pack, SmallInstancesAreOptimal) {
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<Block> blocks = randomBlocks(rng, 7, 4 + below(rng, 6));
    int64_t peak = peakOf(blocks), top = pack(blocks, peak);
    expectLegal(blocks, top);
    ASSERT_EQ(top, leastArena(blocks)) << "instance " << i;
  }
}

// Saved values freed in reverse, gradients that stay, values in passing, workspaces.
TEST(Pack, TrainingStepsAreWithinOnePercent) {
  Rng rng(4);
  for (int i = 0; i < 10; ++i) {
    uint32_t layers = 20 + below(rng, 200), end = 2 * layers;
    std::vector<Block> blocks;
    auto add = [&](uint32_t first, uint32_t last) {
      int64_t most = below(rng, 3) ? 1 << 16 : 64;
      blocks.push_back({int64_t(64 * (1 + below(rng, most))), first, std::min(last, end)});
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
    int64_t peak = peakOf(blocks), top = pack(blocks, peak);
    EXPECT_LE(double(top), 1.01 * double(peak)) << layers << " layers";
    expectLegal(blocks, top);
  }
}

} // namespace
