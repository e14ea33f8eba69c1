// Tests the segments of a training step, and schedules that are composed of the segments' plans.

#include "passes/plan/chains/nested_schedule.h"
#include "passes/plan/chains/segments.h"
#include "passes/plan/planner.h"
#include "passes/plan/search/emit_schedule.h"
#include "tests/passes/random_problem.h"

#include <gtest/gtest.h>

namespace isthmus::plan {
namespace {

// Blocks of additive couplings: a block maps (a, c) to (c + net(a), a), so that c is the first
// result less net(a). An update overwrites the block's parameter as soon as the gradient is
// computed.
class Couplings {
public:
  static Problem make(uint32_t depth) { return Couplings(depth).p_; }

private:
  static constexpr int64_t kHalf = 100, kHidden = 1000, kGradient = 50;

  struct Block {
    OpIndex weight, a, hidden, net, moved;
  };

  explicit Couplings(uint32_t depth) {
    const OpIndex input = add("input", OpPhase::Forward, {}, {2 * kHalf});
    p_.ops[input].isPinned = true;
    std::vector<OpIndex> weights(depth);
    for (OpIndex &w : weights) {
      w = add("weight", OpPhase::Forward, {}, {kGradient});
      p_.ops[w].isPinned = true;
    }
    OpIndex a = add("a", OpPhase::Forward, {input}, {kHalf}),
            c = add("c", OpPhase::Forward, {input}, {kHalf});
    for (uint32_t b = 0; b < depth; ++b) {
      Block k{.weight = weights[b], .a = a};
      k.hidden = add("hidden", OpPhase::Forward, {a, k.weight}, {kHidden}, 10);
      k.net = add("net", OpPhase::Forward, {k.hidden, k.weight}, {kHalf}, 10);
      k.moved = add("moved", OpPhase::Forward, {c, k.net}, {kHalf});
      inverses_.push_back({c, k});
      blocks_.push_back(k);
      c = a;
      a = k.moved;
    }
    OpIndex da = add("loss", OpPhase::Backward, {a, c}, {kHalf}),
            dc = add("d.c", OpPhase::Backward, {da}, {kHalf});
    for (; !blocks_.empty(); blocks_.pop_back()) {
      const Block &k = blocks_.back(); // da: the gradient of k.moved; dc: the gradient of k.a
      OpIndex hidden = add("d.hidden", OpPhase::Backward, {da, k.weight, k.hidden}, {kHidden}, 10);
      OpIndex weight = add("d.weight", OpPhase::Backward, {hidden, k.a}, {kGradient}, 10);
      OpIndex sum = add("d.a", OpPhase::Backward, {dc, hidden, k.weight}, {kHalf}, 10);
      addUpdate(weight, k.weight);
      dc = da;
      da = sum;
    }
    p_.outputs.push_back({da, 0});
    for (auto [c, k] : inverses_) {
      OpIndex i = add("inverse", OpPhase::Backward, {k.moved, k.net}, {kHalf});
      p_.ops[i].isAlternative = true;
      p_.ops[i].of = c;
    }
  }

  OpIndex add(const char *name, OpPhase phase, std::vector<OpIndex> reads,
              std::vector<int64_t> bytes, double cost = 1) {
    Op op;
    op.name = name + std::to_string(p_.ops.size());
    op.phase = phase;
    op.cost = cost;
    op.outputBytes = std::move(bytes);
    for (OpIndex r : reads)
      op.inputs.push_back({r, 0});
    p_.ops.push_back(op);
    return OpIndex(p_.ops.size() - 1);
  }

  void addUpdate(OpIndex gradient, OpIndex weight) {
    OpIndex i = add("update", OpPhase::Update, {gradient, weight}, {0});
    p_.ops[i].overwrites = {1};
    p_.ops[i].recomputable = false;
    p_.outputs.push_back({i, 0});
  }

  Problem p_;
  std::vector<Block> blocks_;
  std::vector<std::pair<OpIndex, Block>> inverses_; // for each block, the c that it has replaced
};

std::string nameOf(const StorageGraph &g, TaskId t) {
  return g.problem().ops[g.tasks[t].source].name;
}

TEST(Segments, EndWhereLeastGoesOn) {
  const Problem p = Couplings::make(6);
  const StorageGraph g(p, /*withAlternatives=*/true);
  const std::optional<Segments> s = segmentsOf(g, 3);
  ASSERT_TRUE(s);
  ASSERT_GE(s->num, 4u);
  for (uint32_t k = 1; k < s->num; ++k) {
    EXPECT_EQ(s->in[k].size(), 2u) << k; // both halves
    int64_t back = 0;
    for (StorageId v : s->out[k])
      back += g.storages[v].bytes;
    EXPECT_EQ(back, 200) << k; // both gradients
  }
}

TEST(Segments, HaveEachTaskOnceAndInputsBefore) {
  const Problem p = Couplings::make(9);
  const StorageGraph g(p, /*withAlternatives=*/true);
  const std::optional<Segments> s = segmentsOf(g, 4);
  ASSERT_TRUE(s);
  std::vector<uint32_t> timeOf(g.numOriginal, ~0u);
  for (uint32_t time = 0; time < s->tasksAt.size(); ++time)
    for (TaskId t : s->tasksAt[time]) {
      EXPECT_EQ(timeOf[t.index], ~0u) << nameOf(g, t);
      timeOf[t.index] = time;
    }
  for (uint32_t i = 0; i < g.numOriginal; ++i) {
    const TaskId t(i);
    ASSERT_NE(timeOf[i], ~0u) << nameOf(g, t);
    for (StorageId v : g.tasks[t].reads)
      EXPECT_LE(timeOf[g.storages[v].maker.index], timeOf[i]) << nameOf(g, t);
    for (TaskId reader : g.readersOfOverwritten(t))
      EXPECT_TRUE(g.isAlternative(reader) || timeOf[reader.index] <= timeOf[i])
          << nameOf(g, reader);
  }
}

TEST(Segments, AreNoneOfOneBlock) {
  const Problem p = Couplings::make(2);
  EXPECT_FALSE(segmentsOf(StorageGraph(p, /*withAlternatives=*/true), 24));
}

// Each gradient reads all gradients of the layer before, so that the number of paths is 30^10.
TEST(Segments, AreFoundWhereGradientsReadManyOthers) {
  constexpr uint32_t kForward = 12, kLayers = 10, kWidth = 30;
  Problem p;
  auto add = [&p](OpPhase phase, std::vector<OpIndex> reads) {
    Op op;
    op.name = "op" + std::to_string(p.ops.size());
    op.phase = phase;
    op.cost = 1;
    for (OpIndex r : reads)
      op.inputs.push_back({r, 0});
    op.outputBytes = {100};
    p.ops.push_back(op);
    return OpIndex(p.ops.size() - 1);
  };
  OpIndex x = add(OpPhase::Forward, {});
  for (uint32_t i = 1; i < kForward; ++i)
    x = add(OpPhase::Forward, {x});
  std::vector<OpIndex> layer = {add(OpPhase::Backward, {x})};
  for (uint32_t k = 0; k < kLayers; ++k) {
    std::vector<OpIndex> next;
    for (uint32_t i = 0; i < kWidth; ++i)
      next.push_back(add(OpPhase::Backward, layer));
    layer = std::move(next);
  }
  layer.push_back(0); // the first segment's backward part reads it, and the last layer
  p.outputs = {{add(OpPhase::Backward, layer), 0}};
  const StorageGraph g(p);
  const std::optional<Segments> s = segmentsOf(g, 3);
  ASSERT_TRUE(s);
  EXPECT_GE(s->num, 3u);
  EXPECT_EQ(s->tasksAt[s->backwardOf(1)].size(), 1u); // 30 values cross each layer's end
}

// Without inverses, each segment must keep its inputs.
TEST(NestedSchedule, HoldsWhatCannotBeBroughtBack) {
  Problem p = Couplings::make(8);
  std::erase_if(p.ops, [](const Op &op) { return op.isAlternative; });
  const StorageGraph g(p);
  auto plan = [](const Problem &part, int64_t budget) {
    const PlanResult r = planWithin(part, {.budgetBytes = budget, .effort = 0.05});
    return r.isWithin ? r.schedule : Schedule();
  };
  EXPECT_TRUE(nestedSchedule(g, 2600, 3, plan).empty());
  const Schedule s = emitSchedule(g, nestedSchedule(g, 4500, 3, plan));
  ASSERT_FALSE(s.empty());
  EXPECT_LE(Slow::peak(p, s), 4500);
}

// One budget suffices at every depth, for less overhead than another forward pass.
TEST(Planner, NeedsNoMoreForDeeperInvertibleNetworks) {
  constexpr int64_t kBudget = 2700;
  for (uint32_t depth : {24, 48, 192}) {
    const Problem p = Couplings::make(depth);
    const PlanResult r = planWithin(p, {.budgetBytes = kBudget, .effort = 1});
    EXPECT_TRUE(r.isWithin) << depth;
    EXPECT_EQ(r.planned.peakBytes, Slow::peak(p, r.schedule)) << depth;
    EXPECT_LT(r.overhead(), 0.45) << depth;
  }
}

// On any problem the result is a schedule within the budget, or none.
TEST(NestedSchedule, IsWithinOnRandomProblems) {
  int found = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed);
    Problem p = randomProblem(rng, 40);
    p.alignment = 1;
    addAlternatives(p, rng, 8);
    if (below(rng, 2))
      addOverwrites(p, rng);
    const StorageGraph g(p, /*withAlternatives=*/true);
    const Evaluation all = evaluate(p, sourceOrder(p));
    if (!all.error.empty())
      continue;
    const int64_t budget = all.peakBytes + int64_t(below(rng, 200));
    auto plan = [](const Problem &part, int64_t bytes) {
      EXPECT_EQ(evaluate(part, sourceOrder(part)).error, "");
      const PlanResult r = planWithin(part, {.budgetBytes = bytes, .effort = 0.002});
      return r.isWithin ? r.schedule : Schedule();
    };
    const std::vector<TaskId> tasks = nestedSchedule(g, budget, 2 + uint32_t(below(rng, 4)), plan);
    if (tasks.empty())
      continue;
    ++found;
    EXPECT_LE(Slow::peak(p, emitSchedule(g, tasks)), budget) << "seed " << seed;
  }
  EXPECT_GT(found, 20);
}

} // namespace
} // namespace isthmus::plan
