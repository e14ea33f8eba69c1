// Compares the planner's evaluation of random problems with a slow simulation that shares no code
// with it.

#include "passes/place/place.h"
#include "passes/plan/checkpoint_schedule.h"
#include "passes/plan/overwrites.h"
#include "tests/passes/random_problem.h"
#include "gtest/gtest.h"
#include <algorithm>
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
    if (i % 2)
      addOverwrites(p, rng);
    for (const Schedule &s : {sourceOrder(p), checkpointSchedule(p, randomKeep(p, rng))}) {
      Evaluation e = evaluate(p, s);
      ASSERT_EQ(e.error, "") << "problem " << i;
      ASSERT_EQ(e.peakBytes, Slow::peak(p, s)) << "problem " << i;
      recomputations += e.recomputed;
    }
  }
  EXPECT_GT(recomputations, 3000u); // enough for the comparison to mean something
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

// w is overwritten by an update; f reads w through a view.
TEST(Evaluate, NamesWhoReadsWhatWasOverwritten) {
  Problem p;
  p.ops.resize(4);
  p.ops[0].name = "w";
  p.ops[0].isPinned = true;
  p.ops[0].outputBytes = {64};
  p.ops[1].name = "view";
  p.ops[1].inputs = {{0, 0}};
  p.ops[1].viewOf = 0;
  p.ops[2].name = "f";
  p.ops[2].inputs = {{1, 0}};
  p.ops[2].outputBytes = {8};
  p.ops[3].name = "update";
  p.ops[3].inputs = {{2, 0}, {0, 0}};
  p.ops[3].outputBytes = {0};
  p.ops[3].overwrites = {1};
  p.ops[3].recomputable = false;
  p.outputs = {{3, 0}};
  EXPECT_EQ(evaluate(p, {1, 2, 3}).error, "");
  EXPECT_EQ(evaluate(p, {1, 2, 3}).outputBytes, 0);
  EXPECT_EQ(evaluate(p, {1, 2, 3, 2}).error, "'f' reads 'w' after 'update' has overwritten it");
  EXPECT_EQ(withLateOverwrites(p, {1, 2, 3, 2}), (Schedule{1, 2, 2, 3}));
  EXPECT_FALSE(faultOf(p));
  p.outputs.push_back({0, 0});
  EXPECT_EQ(evaluate(p, {1, 2, 3}).error, "output 'w' is overwritten");
  EXPECT_EQ(faultOf(p)->why, "it is an output, and is overwritten");
  p.outputs.pop_back();
  p.ops[3].recomputable = true;
  EXPECT_EQ(faultOf(p)->op, 3u);
  p.ops[3].overwrites = {0};
  EXPECT_EQ(faultOf(p)->why, "it overwrites 'f', which is not pinned");
  p.ops[3].isAlternative = true; // errors in alternatives are reported first, even for later ops
  p.ops[3].of = 1;
  EXPECT_EQ(faultOf(p)->why, "it is of op 1, which has no storage of its own that a run makes");
}

// Programs that number their ops need not name them.
TEST(Evaluate, CallsOpsWithoutNamesByTheirIndex) {
  Problem p;
  p.ops.resize(4);
  p.ops[0].isPinned = true;
  p.ops[0].outputBytes = {64};
  p.ops[1].name = "f";
  p.ops[1].inputs = {{0, 0}};
  p.ops[1].outputBytes = {8};
  p.ops[2].inputs = {{1, 0}, {0, 0}};
  p.ops[2].outputBytes = {0};
  p.ops[2].overwrites = {1};
  p.ops[2].recomputable = false;
  p.ops[3].inputs = {{1, 0}};
  p.ops[3].outputBytes = {8};
  p.outputs = {{2, 0}, {3, 0}};
  EXPECT_EQ(evaluate(p, {1, 2, 3}).error, "");
  EXPECT_EQ(evaluate(p, {1, 2, 1, 3}).error, "'f' reads op 0 after op 2 has overwritten it");
  EXPECT_EQ(evaluate(p, {3}).error, "op 3 reads 'f' before it has run");
  EXPECT_EQ(evaluate(p, {1, 2}).error, "output op 3 is never computed");
  EXPECT_EQ(evaluate(p, {1, 3, 2, 2}).error, "op 2 runs twice, and must not");
  p.order = Order::Fixed;
  EXPECT_EQ(evaluate(p, {1, 3, 2}).error, "op 2 runs first after op 3, and the order is fixed");
  p.ops[2].overwrites = {0};
  EXPECT_EQ(faultOf(p)->why, "it overwrites 'f', which is not pinned");
  p.ops[1].name.clear();
  EXPECT_EQ(faultOf(p)->why, "it overwrites op 1, which is not pinned");
}

// The third output and the 67th each take over the bytes of a dying operand.
TEST(Evaluate, OutputsAreToldApartHoweverManyThereAre) {
  Problem p;
  p.ops.resize(3);
  p.ops[0].outputBytes = p.ops[1].outputBytes = {64};
  p.ops[2].inputs = {{0, 0}, {1, 0}};
  p.ops[2].outputBytes.assign(70, 64);
  p.ops[2].donations = {{66, 0}, {2, 1}};
  for (uint32_t k = 0; k < 70; ++k)
    p.outputs.push_back({2, k});
  EXPECT_EQ(evaluate(p, {0, 1, 2}).peakBytes, 70 * 64);
}

// Views keep two older instances of a storage of 2^61 bytes live.
TEST(Evaluate, MoreLiveBytesThan64BitsHoldIsAnError) {
  Problem p;
  p.ops.resize(4);
  p.ops[0].name = "s";
  p.ops[0].outputBytes = {int64_t(1) << 61};
  for (uint32_t v : {1, 2}) {
    p.ops[v].inputs = {{0, 0}};
    p.ops[v].viewOf = 0;
  }
  p.ops[3].inputs = {{0, 0}, {1, 0}, {2, 0}};
  p.ops[3].outputBytes = {64};
  p.outputs = {{3, 0}};
  EXPECT_EQ(evaluate(p, {0, 1, 2, 3}).peakBytes, (int64_t(1) << 61) + 64);
  EXPECT_EQ(evaluate(p, {0, 1, 0, 2, 0, 3}).error, "more than 2^62 bytes are live at step 4, 's'");
}

// f1 .. f8 in a chain, 10 bytes each, then a backward chain that reads them in reverse order. The
// first `numSources` ops are pinned.
Problem chain(uint32_t numSources) {
  Problem p;
  Op in;
  in.isPinned = true;
  in.outputBytes = {10};
  p.ops.assign(numSources, in);
  for (uint32_t i = 1; i <= 8; ++i) {
    Op f;
    f.name = "f" + std::to_string(i);
    f.inputs = {{uint32_t(p.ops.size()) - 1, 0}};
    f.outputBytes = {10};
    f.cost = 1;
    p.ops.push_back(f);
  }
  for (uint32_t i = 8; i >= 1; --i) {
    Op b;
    b.phase = plan::OpPhase::Backward;
    b.inputs = {{numSources - 1 + i, 0}, {uint32_t(p.ops.size()) - 1, 0}};
    b.outputBytes = {10};
    b.cost = 1;
    p.ops.push_back(b);
  }
  p.outputs = {{uint32_t(p.ops.size()) - 1, 0}};
  return p;
}

void expectSegmentsRecomputedOnce(const Problem &p, OpIndex checkpoint) {
  // If all are kept, the eight values and one gradient are live at the first backward op.
  EXPECT_EQ(evaluate(p, sourceOrder(p)).peakBytes, 90);
  std::vector<std::vector<bool>> keep(p.ops.size(), {false});
  keep[checkpoint] = {true};
  Evaluation e = evaluate(p, checkpointSchedule(p, keep));
  // f8 is no longer live when it is read: 5, 6, 7, 8 are recomputed from 4, and later 1, 2, 3.
  EXPECT_EQ(e.recomputed, 7u);
  EXPECT_EQ(e.cost, 16 + 7);
  EXPECT_LT(e.peakBytes, 90);
}

TEST(Keep, RecomputesSegmentsOfAChainOnce) { expectSegmentsRecomputedOnce(chain(1), 4); }

// In traced graphs, the gradient that is fed from outside comes before the forward part.
TEST(Keep, InputsOfTheBackwardPartMayComeFirst) {
  Problem p = chain(2);
  p.ops[0].phase = plan::OpPhase::Backward;
  expectSegmentsRecomputedOnce(p, 5);
}

// The forward part of a second chunk follows the backward part of the first: both are recomputed.
TEST(Keep, RecomputesEachChunkBeforeItsOwnBackwardPart) {
  Problem p = chain(1);
  const uint32_t first = 1, shift = uint32_t(p.ops.size()) - first;
  for (uint32_t i = first; i < first + shift; ++i) {
    Op again = p.ops[i];
    for (Read &r : again.inputs)
      r.op += r.op == 0 ? 0 : shift; // op 0 is the input that both chunks read
    p.ops.push_back(again);
  }
  p.outputs.push_back({uint32_t(p.ops.size()) - 1, 0});
  EXPECT_EQ(evaluate(p, sourceOrder(p)).peakBytes, 100); // the first chunk's result is live too
  std::vector<std::vector<bool>> keep(p.ops.size(), {false});
  keep[4] = keep[4 + shift] = {true};
  Evaluation e = evaluate(p, checkpointSchedule(p, keep));
  EXPECT_EQ(e.recomputed, 14u);
  EXPECT_LT(e.peakBytes, 100);
}

// A value that both chunks read, the first one's backward part among them, is live in between.
TEST(Keep, KeepsWhatChunksShare) {
  Problem p;
  auto add = [&](plan::OpPhase phase, std::vector<Read> inputs) {
    Op op;
    op.phase = phase;
    op.inputs = std::move(inputs);
    op.outputBytes = {10};
    op.cost = 1;
    p.ops.push_back(op);
  };
  add(plan::OpPhase::Forward, {});
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    add(plan::OpPhase::Forward, {{0, 0}});
    add(plan::OpPhase::Backward, {{0, 0}, {1 + 2 * chunk, 0}});
  }
  p.outputs = {{2, 0}, {4, 0}};
  const Schedule s = checkpointSchedule(p, {5, {false}});
  EXPECT_EQ(std::count(s.begin(), s.end(), 0u), 1);
  EXPECT_EQ(std::count(s.begin(), s.end(), 3u), 2);
}

} // namespace
