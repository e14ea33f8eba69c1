// Equal problems in different forms have the same plans, and changes that must not matter do not.

#include "passes/plan/bound.h"
#include "passes/plan/planner.h"
#include "tests/passes/exhaustive_search.h"
#include "tests/passes/small_problem.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <tuple>

using namespace isthmus;
using namespace isthmus::plan;

namespace {

// With ISTHMUS_FULL=1, tests run on all problems and not on a sample.
int numProblems(int sampled, int all) { return std::getenv("ISTHMUS_FULL") ? all : sampled; }

PlanResult planned(const Problem &p, int64_t budget) {
  SearchOptions o;
  o.budgetBytes = budget;
  o.effort = 0.01;
  return planWithin(p, o);
}

struct Case {
  Problem p;
  int64_t budget;
};

Case someCase(Rng &rng) {
  Case c{randomProblem(rng, 12), 0};
  c.p.order = below(rng, 3) ? Order::Free : below(rng, 2) ? Order::Phases : Order::Fixed;
  int64_t most = evaluate(c.p, sourceOrder(c.p)).peakBytes;
  c.budget = most * int64_t(50 + below(rng, 50)) / 100;
  return c;
}

// The ops in another order; `to` holds the new index of each.
Problem permuted(const Problem &p, const std::vector<OpIndex> &to) {
  Problem q = p;
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    q.ops[to[i]] = p.ops[i];
    for (Read &r : q.ops[to[i]].inputs)
      r.op = to[r.op];
  }
  for (Read &r : q.outputs)
    r.op = to[r.op];
  for (OpIndex &i : q.forwardOutputs)
    i = to[i];
  return q;
}

// Inserts `op` at index `at`.
std::pair<Problem, std::vector<OpIndex>> withOp(const Problem &p, OpIndex at, Op op) {
  Problem q = p;
  q.ops.push_back(std::move(op));
  std::vector<OpIndex> to(q.ops.size());
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    to[i] = i + (i >= at);
  to.back() = at;
  return {permuted(q, to), to};
}

Schedule renamed(Schedule s, const std::vector<OpIndex> &to) {
  for (OpIndex &i : s)
    i = to[i];
  return s;
}

// The effect of a change on a problem.
struct Change {
  std::vector<OpIndex> to; // the new index of each op; if empty, indices are unchanged
  double costs = 1;        // the factor of all costs
};

// Plans some cases before and after `change`, which modifies the problem.
template <typename Fn> void expectSame(uint64_t seed, Fn change) {
  Rng rng(seed);
  for (int i = 0, n = numProblems(60, 1000); i < n; ++i) {
    auto [p, budget] = someCase(rng);
    PlanResult before = planned(p, budget);
    Change done = change(p, rng);
    PlanResult after = planned(p, budget);
    if (!done.to.empty())
      before.schedule = renamed(before.schedule, done.to);
    ASSERT_EQ(before.isWithin, after.isWithin) << "problem " << i;
    ASSERT_EQ(before.planned.peakBytes, after.planned.peakBytes) << "problem " << i;
    ASSERT_EQ(before.planned.cost * done.costs, after.planned.cost) << "problem " << i;
    ASSERT_EQ(before.smallestBytes, after.smallestBytes) << "problem " << i;
    ASSERT_EQ(before.lowestPeak, after.lowestPeak) << "problem " << i;
    ASSERT_EQ(before.schedule, after.schedule) << "problem " << i;
  }
}

TEST(Same, WhateverOpsAreCalled) {
  expectSame(1, [](Problem &p, Rng &rng) {
    for (Op &op : p.ops)
      op.name = "x" + std::to_string(below(rng, 3));
    return Change{};
  });
}

// Pinned storages are not charged, and pinned ops are not in a schedule.
TEST(Same, WithMoreThatIsAlwaysThere) {
  expectSame(2, [](Problem &p, Rng &rng) {
    Op weight;
    weight.name = "weight";
    weight.isPinned = true;
    weight.outputBytes = {int64_t(1) << 40};
    std::vector<OpIndex> to;
    std::tie(p, to) = withOp(p, OpIndex(below(rng, 3)), weight);
    for (OpIndex k = 0; k < to.back(); ++k) // the new op must come before its readers
      EXPECT_TRUE(p.ops[k].isPinned);
    for (Op &op : p.ops)
      if (!op.isPinned && !op.isView() && below(rng, 2))
        op.inputs.push_back({to.back(), 0});
    return Change{to};
  });
}

// Uses a unit of time that is smaller by a power of two, so that rounding does not change.
TEST(Same, InOtherUnitsOfTime) {
  expectSame(3, [](Problem &p, Rng &) {
    for (Op &op : p.ops)
      op.cost *= 1024;
    return Change{{}, 1024};
  });
}

// Ops that nothing needs do not run. (They must need no bytes: otherwise they would change the peak
// of the source order, from which the search starts.)
TEST(Same, WithDeadOps) {
  expectSame(4, [](Problem &p, Rng &rng) {
    Op dead;
    dead.name = "dead";
    dead.cost = 1000;
    dead.inputs = {{0, 0}};
    dead.outputBytes = {0};
    std::vector<OpIndex> to;
    std::tie(p, to) = withOp(p, OpIndex(2 + below(rng, p.ops.size() - 1)), dead);
    return Change{to};
  });
}

// The difference between plans of two equal problems. The search takes another path, as it starts
// at another order, or as its internal targets are rounded differently.
struct Apart {
  int problems = 0, met = 0, sameCost = 0, sameLeast = 0;
  double worst = 1; // the ratio of the costs

  void add(const PlanResult &a, const PlanResult &b) {
    ++problems;
    sameLeast += a.isWithin == b.isWithin;
    if (!a.isWithin || !b.isWithin)
      return;
    ++met;
    double x = a.planned.cost, y = b.planned.cost;
    sameCost += std::abs(x - y) < 1e-9 * x;
    worst = std::max({worst, x / y, y / x});
  }
  void print(const char *what) const {
    std::printf("%s: %d problems, %d alike in meeting the budget, %d of %d cost the same, %.3f at "
                "worst\n",
                what, problems, sameLeast, sameCost, met, worst);
  }
};

TEST(Alike, InOtherUnitsOfBytes) {
  Rng rng(5);
  Apart apart;
  for (int i = 0, n = numProblems(100, 1000); i < n; ++i) {
    auto [p, budget] = someCase(rng);
    PlanResult before = planned(p, budget);
    Problem q = p;
    q.alignment *= 1000;
    for (Op &op : q.ops) {
      op.workspace *= 1000;
      for (int64_t &bytes : op.outputBytes)
        bytes *= 1000;
    }
    PlanResult after = planned(q, budget * 1000);
    ASSERT_EQ(before.baseline.peakBytes * 1000, after.baseline.peakBytes);
    ASSERT_EQ(before.lowestPeak * 1000, after.lowestPeak);
    apart.add(before, after);
  }
  apart.print("bytes times 1000");
  EXPECT_GT(apart.sameLeast, apart.problems * 95 / 100);
  EXPECT_GT(apart.sameCost, apart.met * 90 / 100);
  EXPECT_LT(apart.worst, 1.3);
}

// A random order of the same ops in which inputs come before their readers.
std::vector<OpIndex> otherOrder(const Problem &p, Rng &rng) {
  std::vector<OpIndex> to(p.ops.size(), ~0u);
  for (OpIndex place = 0; place < p.ops.size(); ++place) {
    std::vector<OpIndex> ready;
    for (OpIndex i = 0; i < p.ops.size(); ++i)
      if (to[i] == ~0u && std::all_of(p.ops[i].inputs.begin(), p.ops[i].inputs.end(),
                                      [&](const Read &r) { return to[r.op] != ~0u; }))
        ready.push_back(i);
    to[ready[below(rng, ready.size())]] = place;
  }
  return to;
}

// If the order is free, the source order does not restrict the schedules.
TEST(Alike, InAnotherSourceOrder) {
  Rng rng(6);
  Apart apart;
  for (int i = 0, n = numProblems(100, 1000); i < n; ++i) {
    auto [p, budget] = someCase(rng);
    p.order = Order::Free;
    Problem q = permuted(p, otherOrder(p, rng));
    PlanResult before = planned(p, budget), after = planned(q, budget);
    ASSERT_LE(before.lowestPeak, after.planned.peakBytes) << "problem " << i;
    ASSERT_LE(after.lowestPeak, before.planned.peakBytes) << "problem " << i;
    apart.add(before, after);
  }
  apart.print("another order");
  EXPECT_GT(apart.sameLeast, apart.problems * 85 / 100);
  EXPECT_GT(apart.sameCost, apart.met * 75 / 100);
  EXPECT_LT(apart.worst, 1.5);
}

// Splits an op into two parts of half its cost; the result of the first part takes no bytes. The
// least peak is the same, and costs may only fall, as the first part need not run again.
TEST(Alike, WithAnOpInTwoParts) {
  Rng rng(7);
  Apart apart;
  for (int i = 0, n = numProblems(100, 1000); i < n; ++i) {
    Problem p = SmallProblem::make(rng, kShapes[below(rng, 3)]);
    OpIndex at = OpIndex(1 + below(rng, p.ops.size() - 1));
    Op first;
    first.name = "first";
    first.phase = p.ops[at].phase;
    first.cost = p.ops[at].cost / 2;
    first.inputs = p.ops[at].inputs;
    first.outputBytes = {0};
    first.recomputable = p.ops[at].recomputable;
    auto [q, to] = withOp(p, at, first);
    q.ops[to[at]].cost /= 2;
    q.ops[to[at]].inputs.push_back({to.back(), 0});
    ExhaustiveSearch whole(p), parts(q);
    int64_t least = whole.leastPeak();
    ASSERT_EQ(least, parts.leastPeak()) << "problem " << i;
    ASSERT_LE(lowestPeak(q), least) << "problem " << i;
    int64_t most = evaluate(p, sourceOrder(p)).peakBytes;
    int64_t budget = least + int64_t(below(rng, uint64_t(most - least + 1)));
    double cost = parts.leastCost(budget);
    ASSERT_LE(cost, whole.leastCost(budget) + 1e-9) << "problem " << i;
    PlanResult before = planned(p, budget), after = planned(q, budget);
    if (after.isWithin) {
      ASSERT_GE(after.planned.cost, cost - 1e-9) << "problem " << i;
      if (before.isWithin && after.planned.cost <= before.planned.cost)
        after.planned.cost = before.planned.cost;
    }
    apart.add(before, after);
  }
  apart.print("an op in two parts");
  EXPECT_GT(apart.sameLeast, apart.problems * 90 / 100);
  EXPECT_GT(apart.sameCost, apart.met * 90 / 100);
}

} // namespace
