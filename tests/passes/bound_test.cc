// Compares the bounds with the exact optimum, found by exhaustive search, on small problems, and
// tests them on problems with the shapes of networks.

#include "passes/plan/bound.h"
#include "passes/plan/bounds/overhead_bound.h"
#include "passes/plan/bounds/peak_bound.h"
#include "passes/plan/storages/storage_graph.h"
#include "tests/passes/exhaustive_search.h"
#include "tests/passes/random_problem.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace isthmus;
using namespace isthmus::plan;

namespace {

// With ISTHMUS_FULL=1, tests run on all problems and not on a sample.
int numProblems(int sampled, int all) { return std::getenv("ISTHMUS_FULL") ? all : sampled; }

TEST(ExhaustiveSearch, AgreesWithTheJudge) {
  Rng rng(1);
  for (int i = 0; i < 30; ++i) {
    Problem p = randomProblem(rng, 2);
    Evaluation source = evaluate(p, sourceOrder(p));
    ASSERT_EQ(source.error, "");
    ExhaustiveSearch all(p);
    int64_t least = all.leastPeak();
    EXPECT_LE(least, source.peakBytes);
    Evaluation found = evaluate(p, all.schedule());
    EXPECT_EQ(found.error, "");
    EXPECT_EQ(found.peakBytes, least);
  }
}

TEST(LowestPeak, IsNeverAboveTheLeastAndOftenIt) {
  Rng rng(2);
  int equal = 0, better = 0, n = numProblems(300, 3000);
  for (int i = 0; i < n; ++i) {
    Problem p = randomProblem(rng, 1 + below(rng, 2));
    int64_t least = ExhaustiveSearch(p).leastPeak(), bound = lowestPeak(p);
    ASSERT_LE(bound, least) << "problem " << i;
    equal += bound == least;
    better += bound > structuralPeak(Needs(p));
  }
  EXPECT_GT(equal, n * 8 / 10);
  EXPECT_GT(better, n / 10);
}

// Without repeats, a fixed order leaves one schedule.
TEST(LowestPeak, IsThePeakWhereTheOrderIsFixedAndNothingRunsAgain) {
  Rng rng(5);
  for (int i = 0, n = numProblems(300, 3000); i < n; ++i) {
    Problem p = randomProblem(rng, 20);
    p.order = Order::Fixed;
    const bool mayRepeat = i % 2;
    std::vector<bool> isRead(p.ops.size());
    for (Op &op : p.ops) {
      op.recomputable &= mayRepeat;
      op.donations.clear();
      if (op.isView())
        op.outputBytes = {int64_t(1 + below(rng, 60))};
      op.viewOf = Op::kNoView;
      for (const Read &r : op.inputs)
        isRead[r.op] = true;
    }
    for (OpIndex k = 0; k < p.ops.size(); ++k)
      if (!isRead[k] && !p.ops[k].isPinned)
        p.outputs.push_back({k, 0});
    const Evaluation source = evaluate(p, sourceOrder(p));
    ASSERT_EQ(source.error, "");
    ASSERT_LE(lowestPeak(p), source.peakBytes) << "problem " << i;
    if (!mayRepeat) {
      ASSERT_EQ(lowestPeak(p), source.peakBytes) << "problem " << i;
    }
  }
}

// Most of these ops may run only once.
TEST(LowestPeak, CountsWhatMustBeKept) {
  Rng rng(3);
  int equal = 0, n = numProblems(200, 2000);
  for (int i = 0; i < n; ++i) {
    Problem p = randomProblem(rng, 2);
    for (Op &op : p.ops)
      op.recomputable = below(rng, 3) == 0;
    int64_t least = ExhaustiveSearch(p).leastPeak(), bound = lowestPeak(p);
    ASSERT_LE(bound, least) << "problem " << i;
    equal += bound == least;
  }
  EXPECT_GT(equal, n * 7 / 10);
}

Op make(std::vector<Read> inputs, std::vector<int64_t> bytes, double cost = 1) {
  Op op;
  op.name = "op";
  op.inputs = std::move(inputs);
  op.outputBytes = std::move(bytes);
  op.cost = cost;
  return op;
}

// a -> b -> c of 10 bytes each, and d of 5 bytes, which reads c and a.
TEST(LowestPeak, ByHand) {
  Problem p;
  p.ops = {make({}, {10}), make({{0}}, {10}), make({{1}}, {10}), make({{2}, {0}}, {5})};
  p.outputs = {{3}};
  EXPECT_EQ(structuralPeak(Needs(p)), 25);
  EXPECT_EQ(lowestPeak(p), 25); // a is recomputed when c is live: 20 bytes, then 25
  p.ops[0].recomputable = false;
  EXPECT_EQ(lowestPeak(p), 30); // a stays live while c is made from b
  p.ops[3].donations = {{0, 0}};
  EXPECT_EQ(lowestPeak(p), 30);
  p.ops[0].recomputable = true;
  EXPECT_EQ(lowestPeak(p), 20);
  p.ops[1].workspace = 7;
  EXPECT_EQ(lowestPeak(p), 27);
  p.outputs.push_back({1}); // b lives to the end
  EXPECT_EQ(lowestPeak(p), 30);
  // With an alternative for c, the op of c need not run, but that of b must: a, b and 7 bytes.
  p.ops.push_back(make({{0}}, {10}));
  p.ops.back().isAlternative = true;
  p.ops.back().of = 2;
  EXPECT_EQ(lowestPeak(p), 27);
  for (Op &op : p.ops)
    op.cost = 3;
  p.ops.back().cost = 2; // cheaper than the op of c, which it replaces
  EXPECT_EQ(leastCostAtAll(p), 3 + 3 + 2 + 3);
  p.outputs.pop_back(); // b is then not needed
  EXPECT_EQ(leastCostAtAll(p), 3 + 2 + 3);
  p.outputs.push_back({1});
  p.ops.back().of = 1; // the alternative makes b, beside the op of c
  EXPECT_EQ(lowestPeak(p), 20);
}

// a and b of 10 bytes, c and d of 1 byte read one of them each, e reads c and d. In this order a, b
// and c are live together; in another one 12 bytes do.
TEST(LowestPeak, IsThePeakOfTheOnlySchedule) {
  Problem p;
  p.ops = {make({}, {10}), make({}, {10}), make({{0}}, {1}), make({{1}}, {1}),
           make({{2}, {3}}, {0})};
  p.outputs = {{4}};
  for (Op &op : p.ops)
    op.recomputable = false;
  EXPECT_FALSE(hasOneSchedule(p));
  EXPECT_EQ(lowestPeak(p), 12);
  p.order = Order::Fixed;
  EXPECT_TRUE(hasOneSchedule(p));
  EXPECT_EQ(lowestPeak(p), 21);
  p.ops.push_back(make({{1}}, {30})); // a schedule may leave out what nothing needs
  p.ops.back().recomputable = false;
  EXPECT_FALSE(hasOneSchedule(p));
  EXPECT_LE(lowestPeak(p), 21);
  p.ops.pop_back();
  p.ops[0].recomputable = true;
  EXPECT_FALSE(hasOneSchedule(p));
  EXPECT_LE(lowestPeak(p), 21);
}

// a -> b -> c -> d, and e reads b and d; a and b may run only once. While c runs, b is live, and a
// need not be.
TEST(LowestPeak, CountsAChainOnce) {
  Problem p;
  p.ops = {make({}, {31}), make({{0}}, {18}), make({{1}}, {29}), make({{2}}, {25}),
           make({{3}, {1}}, {5})};
  p.ops[0].recomputable = p.ops[1].recomputable = false;
  p.outputs = {{4}};
  EXPECT_EQ(evaluate(p, sourceOrder(p)).peakBytes, 18 + 29 + 25);
  EXPECT_EQ(lowestPeak(p), 18 + 29 + 25);
}

// A chain with skips from its first half to its second, as in a U-Net. All values have one size.
// The first op may run only once.
Problem skips(int levels) {
  constexpr int64_t kBytes = 1 << 20;
  Problem p;
  auto add = [&](std::vector<Read> inputs) {
    p.ops.push_back(make(std::move(inputs), {kBytes}));
    return OpIndex(p.ops.size() - 1);
  };
  OpIndex last = add({});
  p.ops[last].recomputable = false;
  std::vector<OpIndex> down;
  for (int i = 0; i < levels; ++i)
    down.push_back(last = add({{add({{last}})}}));
  for (int i = levels; i-- > 0;)
    last = add({{add({{last}})}, {down[i]}});
  p.outputs = {{last}};
  return p;
}

TEST(LowestPeak, OfSkipsCountsWhatMustBeKept) {
  // An op that reads two values and makes one runs while the first op's result is live: the next
  // skip is recomputed from that result.
  Problem p = skips(20);
  EXPECT_EQ(structuralPeak(Needs(p)), 4 << 20);
  p.ops[0].recomputable = true;
  EXPECT_EQ(structuralPeak(Needs(p)), 3 << 20);
  EXPECT_EQ(lowestPeak(p), 3 << 20);
}

// In a binary tree, one subtree is computed while the result of the other is live.
TEST(LowestPeak, OfATreeGrowsByOneEachLevel) {
  Problem p;
  std::vector<OpIndex> level;
  for (int i = 0; i < 32; ++i) {
    p.ops.push_back(make({}, {100}));
    level.push_back(OpIndex(p.ops.size() - 1));
  }
  for (int height = 1; level.size() > 1; ++height) {
    std::vector<OpIndex> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      p.ops.push_back(make({{level[i]}, {level[i + 1]}}, {100}));
      next.push_back(OpIndex(p.ops.size() - 1));
    }
    level = std::move(next);
    p.outputs = {{level[0]}};
    EXPECT_EQ(structuralPeak(Needs(p)), 300);
    EXPECT_EQ(lowestPeak(p), 100 * (height + 2));
  }
}

// More work never lowers the bound, and no work gives back the known bound.
TEST(LowestPeak, GrowsWithWork) {
  Rng rng(4);
  for (int i = 0; i < 50; ++i) {
    Problem p = randomProblem(rng, 60);
    Needs n(p);
    int64_t known = structuralPeak(n);
    EXPECT_EQ(leastPeak(n, known, 0), known);
    EXPECT_GE(leastPeak(n, known, 100000), known);
    EXPECT_LE(leastPeak(n, known, 100000), evaluate(p, sourceOrder(p)).peakBytes);
  }
}

constexpr uint64_t kWork = 300000;

// A random order in which each op comes after its inputs.
Schedule anyOrder(const Problem &p, Rng &rng) {
  Schedule s;
  std::vector<char> there(p.ops.size(), 0);
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    there[i] = p.ops[i].isPinned;
  for (bool isDone = false; !isDone;) {
    std::vector<OpIndex> ready;
    for (OpIndex i = 0; i < p.ops.size(); ++i)
      if (!there[i] && std::all_of(p.ops[i].inputs.begin(), p.ops[i].inputs.end(),
                                   [&](const Read &r) { return there[r.op]; }))
        ready.push_back(i);
    isDone = ready.empty();
    if (!isDone) {
      s.push_back(ready[below(rng, ready.size())]);
      there[s.back()] = 1;
    }
  }
  return s;
}

TEST(LeastCost, IsNeverAboveTheLeastAndOftenIt) {
  Rng rng(5);
  int equal = 0, dear = 0, dearEqual = 0, n = numProblems(300, 3000);
  for (int i = 0; i < n; ++i) {
    Problem p = randomProblem(rng, 1 + below(rng, 2));
    if (below(rng, 2))
      for (Op &op : p.ops)
        op.recomputable = true;
    Schedule plan = anyOrder(p, rng);
    std::vector<char> needed = neededOps(p);
    std::vector<OpIndex> order;
    double first = 0;
    for (OpIndex op : plan)
      if (needed[op] && !p.ops[op].isView()) {
        order.push_back(op);
        first += p.ops[op].cost;
      }
    int64_t low = ExhaustiveSearch(p).leastPeak(), high = evaluate(p, plan).peakBytes;
    int64_t budget = low + int64_t(below(rng, uint64_t(high - low + 1)));
    double least = ExhaustiveSearch(p, &order).leastCost(budget);
    double known = below(rng, 2) || std::isinf(least) ? 0 : least;
    OverheadBound b = leastCost(p, plan, budget, known, kWork);
    ASSERT_LE(b.cost, least + 1e-6) << "problem " << i;
    ASSERT_GE(b.cost, first - 1e-6);
    if (std::isinf(least))
      continue;
    bool isEqual = b.cost > least - 1e-3;
    equal += isEqual;
    dear += least > first + 1e-6;
    dearEqual += isEqual && least > first + 1e-6;
    if (b.pricePerByte > 0) {
      ASSERT_TRUE(needed[b.at]);
    }
  }
  EXPECT_GT(equal, n * 8 / 10);
  EXPECT_GT(dear, n / 4); // the budget adds cost
  EXPECT_GT(dearEqual, dear * 6 / 10);
}

// Random layers with their gradients: the gradient of layer i reads what layer i read.
Problem network(Rng &rng, int layers) {
  Problem p;
  auto add = [&](std::vector<Read> inputs, int64_t bytes) {
    p.ops.push_back(make(std::move(inputs), {bytes}, double(1 + below(rng, 9))));
    return OpIndex(p.ops.size() - 1);
  };
  std::vector<OpIndex> x = {add({}, 100)};
  for (int i = 0; i < layers; ++i)
    x.push_back(add({{x.back()}}, int64_t(50 + below(rng, 100))));
  OpIndex g = add({{x.back()}}, 100);
  for (int i = layers; i-- > 0;)
    g = add({{g}, {x[i]}}, p.ops[x[i]].outputBytes[0]);
  p.outputs = {{g}};
  return p;
}

TEST(LeastCost, FallsAsTheBudgetGrows) {
  Rng rng(6);
  for (int i = 0; i < 10; ++i) {
    Problem p = network(rng, 12);
    Schedule plan = sourceOrder(p);
    Evaluation e = evaluate(p, plan);
    EXPECT_EQ(leastCost(p, plan, e.peakBytes, 0, kWork).cost, e.cost);
    EXPECT_EQ(leastCost(p, plan, e.peakBytes, 0, kWork).pricePerByte, 0);
    double before = e.cost;
    for (int percent : {90, 80, 70, 60, 50, 40}) {
      int64_t budget = e.peakBytes * percent / 100;
      OverheadBound b = leastCost(p, plan, budget, 0, 10 * kWork);
      EXPECT_GE(b.cost, before - 0.01 * e.cost) << percent;
      EXPECT_GT(b.cost, e.cost);
      EXPECT_GT(b.pricePerByte, 0);
      before = b.cost;
    }
    EXPECT_GT(before, 1.05 * e.cost);
  }
}

// Eight layers and their gradients, of 10 bytes and cost 1 each. The input of the layers is kept.
// When the first gradient is made, the input and all 8 layers are live, and the gradient op reads
// the last layer.
TEST(LeastCost, ByHand) {
  Problem p;
  Op input = make({}, {10});
  input.recomputable = false;
  p.ops.push_back(input);
  for (OpIndex i = 0; i < 8; ++i)
    p.ops.push_back(make({{i}}, {10}));
  p.ops.push_back(make({{8}}, {10}));
  for (OpIndex i = 8; i-- > 0;)
    p.ops.push_back(make({{OpIndex(p.ops.size() - 1)}, {i}}, {10}));
  p.outputs = {{OpIndex(p.ops.size() - 1)}};
  Schedule plan = sourceOrder(p);
  Evaluation e = evaluate(p, plan);
  EXPECT_EQ(e.peakBytes, 100);
  EXPECT_EQ(e.cost, 18);
  // Each layer that does not fit runs once more.
  EXPECT_NEAR(leastCost(p, plan, 90, 0, kWork).cost, 19, 1e-3);
  EXPECT_NEAR(leastCost(p, plan, 80, 0, kWork).cost, 20, 1e-3);
  EXPECT_NEAR(leastCost(p, plan, 60, 0, kWork).cost, 22, 1e-3);
  // An expensive layer is kept, and cheaper layers run again.
  p.ops[4].cost = 50;
  EXPECT_NEAR(leastCost(p, plan, 60, 0, kWork).cost, 17 + 50 + 4, 1e-3);
  // Bytes that are too few for a whole layer save nothing. The linear relaxation alone gives a
  // lower bound.
  EXPECT_NEAR(leastCost(p, plan, 69, 0, kWork).cost, 17 + 50 + 4, 1e-3);
  EXPECT_NEAR(leastCost(p, plan, 70, 0, kWork).cost, 17 + 50 + 3, 1e-3);
  // If layer 4 is the only op that may run again, it must run again.
  for (OpIndex i = 1; i < 9; ++i)
    p.ops[i].recomputable = i == 4;
  EXPECT_NEAR(leastCost(p, plan, 90, 0, kWork).cost, 17 + 50 + 50, 1e-3);
}

TEST(LeastCost, AResultTakesOverOnlyWhatIsNotKept) {
  Problem p;
  p.ops = {make({}, {10}), make({{0}}, {10}), make({{1}, {0}}, {1})};
  p.ops[1].donations = {{0, 0}};
  p.ops[1].workspace = 5;
  p.outputs = {{2}};
  // The second op needs 25 bytes if the first result is kept, and 15 otherwise; the third needs 21.
  EXPECT_NEAR(leastCost(p, sourceOrder(p), 25, 0, kWork).cost, 3, 1e-3);
  EXPECT_NEAR(leastCost(p, sourceOrder(p), 24, 0, kWork).cost, 4, 1e-3);
}

TEST(LeastCost, NeedsTheWholeOrder) {
  // A schedule that lacks an op does not determine the order.
  Rng rng(7);
  Problem p = network(rng, 12);
  Schedule plan = sourceOrder(p);
  Evaluation e = evaluate(p, plan);
  plan.pop_back();
  OverheadBound b = leastCost(p, plan, e.peakBytes / 2, 0, kWork);
  EXPECT_LE(b.cost, e.cost);
  EXPECT_EQ(b.pricePerByte, 0);
}

} // namespace
