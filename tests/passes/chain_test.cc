// Tests recursions over checkpoints: against the known optimum of equal links, against an
// exhaustive search over unequal ones, and as schedules of problems.

#include "passes/plan/chains/chain_schedule.h"
#include "passes/plan/chains/checkpoint_recursion.h"
#include "passes/plan/dead_runs.h"
#include "passes/plan/planner.h"
#include "passes/plan/search/emit_schedule.h"
#include "tests/passes/random_problem.h"

#include <gtest/gtest.h>

namespace isthmus::plan {
namespace {

constexpr double kNever = 1e300;

// Equal steps: the backward part of each reads the state before it and a gradient. The first state
// is pinned.
Problem equalSteps(uint32_t num) {
  Problem p;
  auto add = [&](OpPhase phase, std::vector<OpIndex> reads, double cost) {
    Op op;
    op.name = "op" + std::to_string(p.ops.size());
    op.phase = phase;
    for (OpIndex i : reads)
      op.inputs.push_back({i, 0});
    op.outputBytes = {100};
    op.cost = cost;
    p.ops.push_back(op);
    return OpIndex(p.ops.size() - 1);
  };
  std::vector<OpIndex> states = {add(OpPhase::Forward, {}, 0)};
  p.ops[0].isPinned = true;
  for (uint32_t i = 0; i < num; ++i)
    states.push_back(add(OpPhase::Forward, {states.back()}, 1));
  OpIndex gradient = add(OpPhase::Backward, {states.back()}, 0);
  for (uint32_t i = num; i-- > 0;)
    gradient = add(OpPhase::Backward, {states[i], gradient}, 2);
  p.outputs = {{gradient, 0}};
  return p;
}

SearchOptions within(int64_t bytes) {
  SearchOptions o;
  o.budgetBytes = bytes;
  o.effort = 0.1;
  return o;
}

// Griewank and Walther's numbers; see tests/bench/chains.
TEST(Chain, EqualStepsRunAgainAsOftenAsTheyMust) {
  struct {
    uint32_t steps, states;
    size_t repeats;
  } const cases[] = {{10, 3, 36},   {30, 4, 97},    {50, 4, 236},     {50, 5, 131},
                     {50, 3, 1176}, {200, 10, 381}, {1000, 16, 2185}, {1000, 40, 1181}};
  for (auto [steps, states, repeats] : cases) {
    const Problem p = equalSteps(steps);
    const PlanResult r = planWithin(p, within(states * 100));
    EXPECT_TRUE(r.isWithin) << steps << " steps, " << states << " states";
    EXPECT_EQ(r.planned.recomputed, repeats) << steps << " steps, " << states << " states";
    EXPECT_EQ(Slow::peak(p, r.schedule), states * 100);
  }
}

TEST(Chain, TheLeastPeakIsThatOfABackwardStep) {
  for (uint32_t steps : {4, 17, 300}) {
    SearchOptions o = within(0);
    o.smallest = true;
    o.mostAdded = 1e9;
    const PlanResult r = planWithin(equalSteps(steps), o);
    EXPECT_EQ(r.planned.peakBytes, 300) << steps;
    EXPECT_EQ(r.smallestBytes, 300) << steps;
  }
}

// 300 steps within 8 states add 97 %, within 7 states 115 %.
TEST(Chain, TheSmallestPlanAddsNoMoreThanAllowed) {
  SearchOptions o = within(0);
  o.smallest = true;
  const PlanResult r = planWithin(equalSteps(300), o);
  EXPECT_LE(r.overhead(), 1);
  EXPECT_EQ(r.planned.peakBytes, 800);
  EXPECT_EQ(r.arenaBytes, 800);
  EXPECT_EQ(r.smallestBytes, 300);
  o.budgetBytes = 700; // which the smallest plan of all meets, and this one does not
  EXPECT_EQ(planWithin(equalSteps(300), o).planned.peakBytes, 300);
}

// With one checkpoint: the last state is kept since it is the first that is needed, and all others
// are made from the input.
TEST(Chain, AScheduleInFull) {
  const Problem p = equalSteps(4);
  const StorageGraph g(p);
  const std::vector<TaskId> tasks =
      ChainSchedules(g, 300, {[](StorageId) { return false; }, 1'000'000}).within(300);
  EXPECT_EQ(withoutDeadRuns(p, emitSchedule(g, tasks)),
            (Schedule{1, 2, 3, 4, 5, 6, 1, 2, 7, 1, 8, 9}));
}

TEST(Chain, NothingIsPromisedWhereNothingFits) {
  const Problem p = equalSteps(4);
  const StorageGraph g(p);
  ChainSchedules schedules(g, 200, {[](StorageId) { return false; }, 1'000'000});
  EXPECT_TRUE(schedules.within(200).empty());
  EXPECT_TRUE(schedules.lowest().empty());
}

// --- Unequal links

std::vector<ChainLink> randomLinks(Rng &rng, uint32_t num) {
  std::vector<ChainLink> links(num);
  for (ChainLink &l : links) {
    l.sweepCost = double(1 + below(rng, 9));
    l.keepingCost = l.sweepCost + double(below(rng, 5));
    l.backwardCost = double(below(rng, 9));
    l.sweepPeak = int64_t(1 + below(rng, 12));
    l.passingPeak = int64_t(below(rng, 8)) - 2;
    l.keptBytes = int64_t(below(rng, 8));
    l.keepingPeak = l.sweepPeak + l.keptBytes;
    l.backwardPeak = int64_t(1 + below(rng, 20));
    l.keptBackwardPeak = l.backwardPeak - int64_t(below(rng, 2));
    l.gradientBytes = int64_t(below(rng, 6));
    l.leftBytes = int64_t(below(rng, 5)) - 2;
    for (uint64_t k = below(rng, 3); k > 0; --k)
      l.made.push_back({int64_t(1 + below(rng, 8)), below(rng, 4) ? 0 : uint32_t(below(rng, 4))});
  }
  return links;
}

// By definition, without sharing anything.
class Exhaustive {
public:
  explicit Exhaustive(const std::vector<ChainLink> &links) : links_(links) {}

  double cost(uint32_t begin, uint32_t end, int64_t bytes) {
    auto [known, isNew] = known_.try_emplace({begin, end, bytes}, kNever);
    if (!isNew)
      return known->second;
    double least = kNever;
    if (end == begin + 1) {
      if (links_[begin].backwardPeak <= bytes)
        least = links_[begin].backwardCost;
    } else {
      double sweep = 0;
      int64_t peak = 0, left = 0;
      for (uint32_t i = begin + 1; i < end; ++i)
        left += links_[i].leftBytes;
      for (uint32_t k = begin + 1; k < end; ++k) {
        sweep += links_[k - 1].sweepCost;
        peak = std::max(peak, k == begin + 1 ? links_[begin].sweepPeak
                                             : held(begin, k - 1) + links_[k - 1].passingPeak);
        const int64_t outer = bytes - left;
        if (peak + links_[end - 1].gradientBytes <= bytes)
          least =
              std::min(least, sweep + cost(k, end, bytes - held(begin, k)) + cost(begin, k, outer));
        const ChainLink &l = links_[begin];
        if (k == begin + 1 && l.keepingPeak + links_[end - 1].gradientBytes <= bytes &&
            l.keptBackwardPeak <= outer)
          least =
              std::min(least, l.keepingCost + cost(k, end, bytes - held(begin, k) - l.keptBytes));
        left -= links_[k].leftBytes;
      }
    }
    return known_[{begin, end, bytes}] = least;
  }

private:
  int64_t held(uint32_t begin, uint32_t end) const {
    int64_t bytes = 0;
    for (uint32_t i = begin; i < end; ++i)
      for (const ChainLink::Crossing &c : links_[i].made)
        if (i + 1 + c.reach >= end)
          bytes += c.bytes;
    return bytes;
  }

  const std::vector<ChainLink> &links_;
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, double> known_;
};

// The cost of the runs. The backward tasks of a link must come after those of the next link.
double costOf(const std::vector<ChainLink> &links, const std::vector<ChainRun> &runs) {
  using Kind = ChainRun::Kind;
  double cost = 0;
  uint32_t left = uint32_t(links.size()), at = 0; // `at`: the end that was swept to
  std::set<uint32_t> checkpoints = {0}, kept;
  for (const ChainRun &r : runs) {
    const ChainLink &l = links[r.link];
    const bool isBackward = r.kind == Kind::Backward || r.kind == Kind::KeptBackward;
    EXPECT_TRUE(r.link == at || checkpoints.count(r.link));
    if (isBackward) {
      EXPECT_EQ(r.link + 1, left--);
      EXPECT_EQ(r.kind == Kind::KeptBackward, kept.count(r.link) == 1);
    } else {
      if (r.link != at || r.kind == Kind::KeepingSweep)
        at = r.link;
      ++at;
      checkpoints.insert(at); // (which ones are held is for the peak to tell)
    }
    if (r.kind == Kind::KeepingSweep)
      kept.insert(r.link);
    cost += r.kind == Kind::Sweep          ? l.sweepCost
            : r.kind == Kind::KeepingSweep ? l.keepingCost
            : r.kind == Kind::Backward     ? l.backwardCost
                                           : 0;
  }
  EXPECT_EQ(left, 0u);
  return cost;
}

TEST(Chain, UnequalLinksCostTheLeastByExhaustiveSearch) {
  Rng rng(3);
  size_t numPossible = 0, numImpossible = 0;
  for (int i = 0; i < 400; ++i) {
    const std::vector<ChainLink> links = randomLinks(rng, uint32_t(1 + below(rng, 12)));
    Exhaustive exact(links);
    CheckpointRecursion recursion(links, 60, 1'000'000'000);
    ASSERT_TRUE(recursion.isComplete());
    for (int64_t bytes = 0; bytes <= 60; ++bytes) {
      const double least = exact.cost(0, uint32_t(links.size()), bytes);
      ASSERT_EQ(recursion.leastBytes() <= bytes, least < kNever) << "chain " << i << ", " << bytes;
      if (least == kNever) {
        ++numImpossible;
        continue;
      }
      ++numPossible;
      ASSERT_EQ(recursion.cost(bytes), least) << "chain " << i << ", " << bytes;
      ASSERT_EQ(costOf(links, recursion.runs(bytes, 1000)), least)
          << "chain " << i << ", " << bytes;
    }
  }
  EXPECT_GT(numPossible, 5000u);
  EXPECT_GT(numImpossible, 1000u);
}

// A chain that repeats costs what it costs where nothing is shared.
TEST(Chain, LinksThatRecurAreSolvedOnce) {
  Rng rng(4);
  for (int i = 0; i < 20; ++i) {
    const std::vector<ChainLink> block = randomLinks(rng, 3);
    std::vector<ChainLink> links;
    for (int k = 0; k < 10; ++k)
      links.insert(links.end(), block.begin(), block.end());
    CheckpointRecursion recursion(links, 100, 1'000'000'000);
    Exhaustive exact(links);
    for (int64_t bytes : {25, 40, 70, 100})
      if (const double least = exact.cost(0, 30, bytes); least < kNever) {
        ASSERT_EQ(recursion.cost(bytes), least) << "chain " << i << ", " << bytes;
      }
  }
}

TEST(Chain, GivesUpAfterTheWorkAllowed) {
  Rng rng(5);
  const std::vector<ChainLink> links = randomLinks(rng, 100);
  EXPECT_FALSE(CheckpointRecursion(links, 100, 1000).isComplete());
}

// --- Chains within blocks

// Blocks of inner steps with larger states; the loop of the block starts from its state, which the
// next block reads too.
Problem nestedSteps(uint32_t numBlocks, uint32_t numInner) {
  Problem p;
  auto add = [&](OpPhase phase, std::vector<OpIndex> reads, int64_t bytes, double cost) {
    Op op;
    op.name = "op" + std::to_string(p.ops.size());
    op.phase = phase;
    for (OpIndex i : reads)
      op.inputs.push_back({i, 0});
    op.outputBytes = {bytes};
    op.cost = cost;
    p.ops.push_back(op);
    return OpIndex(p.ops.size() - 1);
  };
  OpIndex state = add(OpPhase::Forward, {}, 100, 0);
  p.ops[0].isPinned = true;
  std::vector<std::vector<OpIndex>> blocks;
  for (uint32_t b = 0; b < numBlocks; ++b) {
    blocks.push_back({state});
    OpIndex inner = state;
    for (uint32_t i = 0; i < numInner; ++i)
      blocks.back().push_back(inner = add(OpPhase::Forward, {inner}, 400, 3));
    state = add(OpPhase::Forward, {state, inner}, 100, 1);
  }
  OpIndex gradient = add(OpPhase::Backward, {state}, 100, 0);
  for (uint32_t b = numBlocks; b-- > 0;) {
    OpIndex inner = add(OpPhase::Backward, {gradient, blocks[b].back()}, 400, 1);
    for (uint32_t i = numInner; i-- > 0;)
      inner = add(OpPhase::Backward, {inner, blocks[b][i]}, i ? 400 : 100, 6);
    gradient = add(OpPhase::Backward, {gradient, inner}, 100, 1);
  }
  p.outputs = {{gradient, 0}};
  return p;
}

TEST(Chain, ChainsWithinBlocksRunAgainWithinThem) {
  const Problem p = nestedSteps(20, 20);
  // A backward step within a block needs 1200 bytes, beside the block's state and the gradient.
  SearchOptions o = within(0);
  o.smallest = true;
  o.mostAdded = 1e9;
  const PlanResult least = planWithin(p, o);
  EXPECT_LE(least.planned.peakBytes, 1500);
  EXPECT_EQ(Slow::peak(p, least.schedule), least.planned.peakBytes);
  // Room for some states of both kinds.
  const PlanResult r = planWithin(p, within(3000));
  EXPECT_TRUE(r.isWithin);
  EXPECT_LT(r.overhead(), 0.85);
}

TEST(Chain, SchedulesOfAnyProblemAreValid) {
  Rng rng(6);
  size_t num = 0, numTasks = 0;
  for (int i = 0; i < 1000; ++i) {
    Problem p = randomProblem(rng, 10 + 40 * (i % 3), /*plainViews=*/true);
    if (i % 2)
      addOverwrites(p, rng);
    const StorageGraph g(p);
    const int64_t budget = evaluate(p, sourceOrder(p)).peakBytes;
    const auto isSmall = [&](StorageId s) { return g.storages[s].bytes < 10; };
    const std::vector<TaskId> tasks =
        ChainSchedules(g, budget, {isSmall, 1'000'000}).within(budget);
    if (tasks.empty())
      continue;
    const Schedule s = emitSchedule(g, tasks);
    const Evaluation judged = evaluate(p, s);
    // A run may come after the update of a parameter that it reads; the search leaves such
    // schedules out.
    if (i % 2 == 0) {
      ASSERT_EQ(judged.error, "") << "problem " << i;
      ASSERT_EQ(Slow::peak(p, s), judged.peakBytes) << "problem " << i;
    }
    ++num;
    numTasks += tasks.size() - g.numOriginal;
  }
  EXPECT_GT(num, 300u);
  EXPECT_GT(numTasks, 500u);
}

} // namespace
} // namespace isthmus::plan
