// Searches that are asked to stop at the first question, when the first plan is found, and midway.
// The result is a plan that the judge accepts, it says truthfully whether it is within the budget,
// and it is the same whenever the search stops at the same question. A caller that has said stop is
// not asked again.

#include "ir/equal_graphs.h"
#include "ir/verifier.h"
#include "passes/compile/compile.h"
#include "passes/compile/within_budget.h"
#include "passes/plan/bound.h"
#include "tests/passes/random_problem.h"
#include "tools/zoo/zoo.h"
#include "gtest/gtest.h"

using namespace isthmus;
using namespace isthmus::plan;

namespace {

// Says stop once, at question number `at` or when a plan is found, and counts the questions.
struct Caller {
  static constexpr size_t kNever = ~size_t(0);
  size_t at = kNever;
  bool atPlan = false;
  size_t asked = 0, askedAgain = 0; // askedAgain: after it said stop
  bool saidStop = false;
  double lastCost = 0;

  bool answer(const SearchProgress &now) {
    ++asked;
    askedAgain += saidStop;
    if (asked != at && !(atPlan && now.cost > 0 && !saidStop))
      return true;
    lastCost = now.cost;
    saidStop = true;
    return false;
  }
};

// Returns the callers that stop a search which asks `questions` times if it is not stopped.
std::vector<Caller> places(size_t questions) {
  std::vector<Caller> callers;
  for (size_t at : {size_t(1), questions / 4, questions / 2, questions * 9 / 10})
    if (at > 0)
      callers.push_back({at});
  callers.push_back({Caller::kNever, /*atPlan=*/true});
  return callers;
}

SearchOptions searchOf(int64_t budget, Caller &caller) {
  SearchOptions o;
  o.budgetBytes = budget;
  o.effort = 0.01;
  o.progress = [&caller](const SearchProgress &now) { return caller.answer(now); };
  return o;
}

void expectTruthful(const Problem &p, const PlanResult &r, const SearchOptions &o) {
  const Evaluation judged = evaluate(p, r.schedule);
  ASSERT_EQ(judged.error, "");
  EXPECT_EQ(judged.peakBytes, r.planned.peakBytes);
  EXPECT_EQ(judged.cost, r.planned.cost);
  EXPECT_EQ(Slow::peak(p, r.schedule), r.planned.peakBytes);
  EXPECT_GE(r.arenaBytes, r.planned.peakBytes);
  EXPECT_GE(r.planned.peakBytes, r.lowestPeak);
  EXPECT_EQ(r.isWithin, o.smallest || r.arenaBytes <= o.budgetBytes);
  if (!r.isWithin) {
    EXPECT_GT(r.smallestBytes, o.budgetBytes);
  }
  if (r.leastCost) {
    EXPECT_LE(*r.leastCost, r.planned.cost + 1e-9);
  }
}

void expectSame(const PlanResult &a, const PlanResult &b) {
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.arenaBytes, b.arenaBytes);
  EXPECT_EQ(a.smallestBytes, b.smallestBytes);
}

Problem anyProblem(Rng &rng) {
  Problem p = randomProblem(rng, 30, /*plainViews=*/true);
  p.order = rng() % 3 == 0 ? Order::Fixed : rng() % 2 ? Order::Phases : Order::Free;
  if (rng() % 2)
    addAlternatives(p, rng, 6);
  return p;
}

TEST(CancelledSearch, GivesAPlanThatIsWhatItSays) {
  Rng rng(11);
  size_t within = 0, over = 0, early = 0;
  for (int i = 0; i < 60; ++i) {
    const Problem p = anyProblem(rng);
    const int64_t most = evaluate(p, sourceOrder(p)).peakBytes, least = lowestPeak(p);
    const int64_t budget = least + (most - least) * int64_t(rng() % 10) / 10;
    Caller whole;
    SearchOptions o = searchOf(budget, whole);
    o.smallest = rng() % 4 == 0;
    planWithin(p, o);
    for (Caller &caller : places(whole.asked)) {
      SCOPED_TRACE(testing::Message() << "problem " << i << ", question " << caller.at);
      Caller again = caller;
      SearchOptions first = searchOf(budget, caller), second = searchOf(budget, again);
      first.smallest = second.smallest = o.smallest;
      const PlanResult r = planWithin(p, first);
      expectTruthful(p, r, first);
      expectSame(r, planWithin(p, second));
      if (!r.isWithin) { // the search must be able to meet the smallest budget that it reports
        SearchOptions met = o;
        met.budgetBytes = r.smallestBytes;
        met.progress = nullptr;
        EXPECT_TRUE(planWithin(p, met).isWithin) << r.smallestBytes;
      }
      EXPECT_EQ(caller.askedAgain, 0u);
      EXPECT_EQ(caller.asked, again.asked);
      // The result is the plan that the caller was told of, or a better one. (If the order is
      // fixed, views hold their bases longer than the search assumes.)
      if (caller.lastCost > 0 && p.order != Order::Fixed) {
        EXPECT_TRUE(r.isWithin);
        EXPECT_LE(r.planned.cost, caller.lastCost * (1 + 1e-9));
      }
      within += r.isWithin;
      over += !r.isWithin;
      early += caller.asked < whole.asked;
      if (HasFailure())
        return;
    }
  }
  EXPECT_GT(within, 100u);
  EXPECT_GT(over, 20u);
  EXPECT_GT(early, 150u); // searches that stopped early
}

// The effort would take weeks, so the test passes only if the searches stop.
TEST(CancelledSearch, EndsLongBeforeItsTime) {
  Rng rng(6);
  for (int i = 0; i < 20; ++i) {
    const Problem p = anyProblem(rng);
    const int64_t most = evaluate(p, sourceOrder(p)).peakBytes, least = lowestPeak(p);
    for (size_t at : {1, 100}) {
      Caller caller{at};
      SearchOptions o = searchOf(least + (most - least) * 7 / 10, caller);
      o.effort = 1e6;
      expectTruthful(p, planWithin(p, o), o);
      EXPECT_EQ(caller.asked, at);
    }
  }
}

// A search of a long chain asks between the schedules that it drafts, so that a caller need not
// wait for all of them.
TEST(CancelledSearch, AsksWhileItDrafts) {
  Problem p;
  auto add = [&](std::vector<uint32_t> reads, OpPhase phase) {
    Op op;
    op.name = "op";
    op.cost = 1;
    op.phase = phase;
    op.outputBytes = {1 << 20};
    for (uint32_t r : reads)
      op.inputs.push_back({r, 0});
    p.ops.push_back(op);
    return uint32_t(p.ops.size() - 1);
  };
  constexpr uint32_t kLayers = 3000;
  add({}, OpPhase::Forward);
  for (uint32_t i = 1; i < kLayers; ++i)
    add({i - 1}, OpPhase::Forward);
  uint32_t gradient = kLayers - 1;
  for (uint32_t i = kLayers; i-- > 0;)
    gradient = add({gradient, i}, OpPhase::Backward);
  p.outputs.push_back({gradient, 0});
  Caller caller;
  size_t between = 0; // questions without any work of a search since the one before
  double last = -1;
  SearchOptions o = searchOf(int64_t(kLayers / 2) << 20, caller);
  o.progress = [&](const SearchProgress &now) {
    between += now.share == last && now.share < 1;
    last = now.share;
    return caller.answer(now);
  };
  EXPECT_TRUE(planWithin(p, o).isWithin);
  EXPECT_GT(between, 10u);
}

// A stopped curve holds the points that were found before, and each plan is as good as those of
// smaller budgets. No search begins after the stop.
TEST(CancelledSearch, EndsACurve) {
  Rng rng(12);
  size_t whole = 0, parts = 0;
  for (int i = 0; i < 15; ++i) {
    const Problem p = anyProblem(rng);
    const int64_t most = evaluate(p, sourceOrder(p)).peakBytes, least = lowestPeak(p);
    std::vector<int64_t> budgets;
    for (int64_t part : {9, 7, 5, 3})
      budgets.push_back(least + (most - least) * part / 10);
    auto curveOf = [&](Caller &caller) { return planCurve(p, budgets, searchOf(0, caller)); };
    Caller patient;
    const size_t all = curveOf(patient).size();
    for (Caller &caller : places(patient.asked)) {
      SCOPED_TRACE(testing::Message() << "problem " << i << ", question " << caller.at);
      Caller again = caller;
      const std::vector<CurvePoint> curve = curveOf(caller), second = curveOf(again);
      ASSERT_EQ(curve.size(), second.size());
      ASSERT_FALSE(curve.empty());
      EXPECT_LE(curve.size(), all);
      EXPECT_EQ(caller.askedAgain, 0u);
      for (size_t k = 0; k < curve.size(); ++k) {
        EXPECT_EQ(curve[k].budgetBytes, budgets[k]);
        SearchOptions o;
        o.budgetBytes = budgets[k];
        expectTruthful(p, curve[k].plan, o);
        expectSame(curve[k].plan, second[k].plan);
        if (k > 0 && curve[k].plan.isWithin) {
          EXPECT_TRUE(curve[k - 1].plan.isWithin);
          EXPECT_LE(curve[k - 1].plan.planned.cost, curve[k].plan.planned.cost);
        }
      }
      ++(curve.size() == all ? whole : parts);
      if (HasFailure())
        return;
    }
  }
  EXPECT_GT(whole, 5u);
  EXPECT_GT(parts, 20u);
}

// --- The whole compilation

struct Stopped {
  Caller caller;
  std::optional<Compiled> compiled;
  std::optional<ErrorKind> error;
  Figures figures; // also set if the budget is not met
};

Stopped compiled(PlanChoice plan, Caller caller) {
  Stopped s;
  CompileOptions o;
  o.step.loss = LossOptions{LossKind::CrossEntropy};
  o.plan = std::move(plan);
  o.effort = 0.1;
  o.progress = [&](const SearchProgress &now) { return caller.answer(now); };
  auto c = compile(
      llvm::cantFail(buildZoo("resnet", {{"depth", "8"}, {"batch", "2"}, {"shape", "3x32x32"}})), o,
      Target());
  if (c) {
    s.figures = c->figures;
    s.compiled = std::move(*c);
  } else {
    llvm::handleAllErrors(c.takeError(), [&](const NotWithin &e) {
      s.error = e.kind;
      s.figures = e.figures;
    });
  }
  s.caller = caller;
  return s;
}

TEST(CancelledSearch, IsToldByCompile) {
  const PlanChoice budgets[] = {Budget{Budget::Share, 0, 0.8}, Budget{Budget::Smallest},
                                Budget{Budget::Bytes, 1, 0}};
  size_t plans = 0, none = 0;
  for (const PlanChoice &plan : budgets) {
    const Stopped whole = compiled(plan, {});
    if (whole.compiled) {
      EXPECT_FALSE(whole.compiled->wasInterrupted);
    } else {
      EXPECT_EQ(whole.error, ErrorKind::CannotBeMet);
    }
    for (const Caller &caller : places(whole.caller.asked)) {
      SCOPED_TRACE(testing::Message() << "question " << caller.at << " of " << whole.caller.asked);
      const Stopped s = compiled(plan, caller), again = compiled(plan, caller);
      EXPECT_EQ(s.caller.askedAgain, 0u);
      EXPECT_EQ(s.error, again.error);
      ASSERT_EQ(bool(s.compiled), bool(again.compiled));
      if (!s.compiled) {
        EXPECT_EQ(s.error, s.caller.saidStop ? ErrorKind::Interrupted : ErrorKind::CannotBeMet);
        EXPECT_EQ(s.figures.baselinePeakBytes, whole.figures.baselinePeakBytes);
        none += s.caller.saidStop;
        continue;
      }
      const Compiled &c = *s.compiled;
      EXPECT_EQ(c.wasInterrupted, s.caller.saidStop);
      EXPECT_EQ(llvm::toString(verify(c.graph)), "");
      EXPECT_EQ(c.layout.peakBytes, c.figures.predictedPeakBytes);
      if (c.budgetBytes) {
        EXPECT_LE(c.layout.arenaBytes, *c.budgetBytes);
      }
      std::string why;
      EXPECT_TRUE(equalGraphs(c.original, whole.compiled->original, &why)) << why;
      EXPECT_TRUE(equalGraphs(c.graph, again.compiled->graph, &why)) << why;
      plans += s.caller.saidStop;
    }
  }
  EXPECT_GT(plans, 4u);
  EXPECT_GT(none, 2u);
}

} // namespace
