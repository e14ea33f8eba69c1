// Tests the planner on random problems. A simulation that shares no code with the planner judges
// every schedule.

#include "passes/compile/within_budget.h"
#include "passes/inspect/joint_graph.h"
#include "passes/plan/bound.h"
#include "passes/plan/dead_runs.h"
#include "passes/plan/planner.h"
#include "passes/plan/search/emit_schedule.h"
#include "passes/plan/search/random_moves.h"
#include "tests/passes/hard_to_place.h"
#include "tests/passes/random_problem.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace isthmus;
using namespace isthmus::plan;

namespace {

// With ISTHMUS_FULL=1, tests run on all problems and not on a sample.
int numProblems(int sampled, int all) { return std::getenv("ISTHMUS_FULL") ? all : sampled; }

// Makes a random move, and keeps or undoes it. A move that fails must be undone.
void moveAtRandom(SearchState &state, RandomMoves &moves, Rng &rng) {
  bool ok = false;
  switch (rng() % (state.graph().hasAlternatives() ? 7 : 6)) {
  case 0:
    ok = moves.removeRepeat();
    break;
  case 1:
    ok = moves.ruin();
    break;
  case 2:
    ok = moves.evictOne(1e300);
    break;
  case 3:
    ok = moves.moveCheckpoint(1e300);
    break;
  case 6:
    ok = moves.exchangeForm();
    break;
  case 4:
    moves.shiftStep(); // false if the change is for the worse
    ok = true;
    break;
  default:
    moves.recreate(1e300);
    ok = true;
  }
  if (ok && rng() % 3)
    state.edits.commit();
  else
    state.edits.undo();
}

// The source order, with random repeats of ops that may run again.
Schedule withRandomRuns(const Problem &p, Rng &rng) {
  Schedule s;
  std::vector<OpIndex> ran;
  for (OpIndex i : sourceOrder(p)) {
    if (!ran.empty() && rng() % 2)
      s.push_back(ran[rng() % ran.size()]);
    s.push_back(i);
    if (p.ops[i].recomputable)
      ran.push_back(i);
  }
  return s;
}

TEST(DeadRuns, NothingIsLeftThatNobodyNeeds) {
  Rng rng(7);
  size_t removed = 0;
  for (int i = 0; i < 1000; ++i) {
    Problem p = randomProblem(rng);
    if (p.ops.empty())
      continue;
    p.order = i % 3 == 0 ? Order::Free : i % 3 == 1 ? Order::Phases : Order::Fixed;
    const Schedule s = withRandomRuns(p, rng), less = withoutDeadRuns(p, s);
    const Evaluation before = evaluate(p, s), after = evaluate(p, less);
    if (!before.error.empty())
      continue;
    ASSERT_EQ(after.error, "") << "problem " << i;
    EXPECT_LE(after.cost, before.cost) << "problem " << i;
    EXPECT_LE(after.peakBytes, before.peakBytes) << "problem " << i;
    EXPECT_EQ(withoutDeadRuns(p, less), less) << "problem " << i;
    removed += s.size() - less.size();
  }
  EXPECT_GT(removed, 1000u);
}

// A gradient that is read only at the end is not computed early and then recomputed.
TEST(DeadRuns, FirstRunsToo) {
  Problem p;
  for (const char *name : {"x", "f", "g", "h"}) {
    Op op;
    op.name = name;
    op.cost = 1;
    op.outputBytes = {8};
    op.isPinned = p.ops.empty();
    if (!p.ops.empty())
      op.inputs = {{0, 0}};
    p.ops.push_back(op);
  }
  p.ops[3].inputs = {{2, 0}};
  p.outputs = {{1, 0}, {3, 0}};
  EXPECT_EQ(withoutDeadRuns(p, {1, 2, 3, 1}), (Schedule{2, 3, 1}));
  p.order = Order::Fixed;
  EXPECT_EQ(withoutDeadRuns(p, {1, 2, 3, 1}), (Schedule{1, 2, 3, 1}));
}

TEST(EditableSchedule, IsExactAfterEveryEdit) {
  Rng rng(1);
  size_t longest = 0, repeats = 0;
  for (int i = 0, n = numProblems(300, 3000); i < n; ++i) {
    Problem p = randomProblem(rng, 10 + 40 * (i % 3), /*plainViews=*/true);
    if (i % 2)
      addOverwrites(p, rng);
    StorageGraph g(p);
    EditableSchedule source(g);
    SearchState state(g, source.peak() * int64_t(30 + rng() % 60) / 100, rng(), true);
    RandomMoves moves(state);
    for (int step = 0; step < 40; ++step) {
      moveAtRandom(state, moves, rng);
      Schedule s = emitSchedule(g, state.schedule().tasks());
      Evaluation judged = evaluate(p, s);
      ASSERT_EQ(judged.error, "") << "problem " << i << ", edit " << step;
      ASSERT_EQ(judged.peakBytes, state.schedule().peak()) << "problem " << i << ", edit " << step;
      ASSERT_NEAR(judged.cost, state.cost(), 1e-6);
      repeats += judged.recomputed;
    }
    Schedule s = emitSchedule(g, state.schedule().tasks());
    ASSERT_EQ(Slow::peak(p, s), state.schedule().peak());
    longest = std::max(longest, s.size());
  }
  EXPECT_GT(repeats, 10000u); // enough for the comparison to mean something
  EXPECT_GT(longest, 80u);
}

// A hundred operands die at their readers, which take over their bytes. When `join` runs again,
// they die later, and no reader takes over any.
TEST(EditableSchedule, IsExactWhereAnOpHasVeryManyOperands) {
  constexpr uint32_t kOperands = 100;
  Problem p;
  auto add = [&](std::vector<Read> reads, bool reuses) {
    Op op;
    op.name = "op" + std::to_string(p.ops.size());
    op.inputs = std::move(reads);
    op.outputBytes = {64};
    if (reuses)
      op.donations = {{0, 0}};
    p.ops.push_back(std::move(op));
    return Read{OpIndex(p.ops.size() - 1), 0};
  };
  std::vector<Read> parts, others;
  for (uint32_t i = 0; i < kOperands; ++i)
    parts.push_back(add({}, false));
  const Read join = add(parts, false);
  for (const Read &part : parts)
    others.push_back(add({part}, true));
  others.push_back(join);
  const Read end = add(others, false);
  p.outputs = {end};

  StorageGraph g(p);
  EditableSchedule t(g);
  auto expectExact = [&] {
    EditableSchedule fresh(g);
    fresh.assign(t.tasks());
    for (StepId a = t.first(), b = fresh.first(); a != t.end(); a = t.next(a), b = fresh.next(b))
      ASSERT_EQ(t.profile().liveAt(a), fresh.profile().liveAt(b));
    ASSERT_EQ(t.peak(), evaluate(p, emitSchedule(g, t.tasks())).peakBytes);
  };
  expectExact();
  const int64_t before = t.peak();
  StepId again = t.insert(TaskId(join.op), t.previous(t.end()));
  expectExact();
  EXPECT_GT(t.peak(), before);
  t.remove(again);
  expectExact();
  EXPECT_EQ(t.peak(), before);
}

// Problems with alternatives and transfers; the stalls must be exact too.
TEST(EditableSchedule, IsExactWithAlternatives) {
  Rng rng(8);
  size_t transfers = 0, forms = 0, stalled = 0;
  for (int i = 0, n = numProblems(400, 10000); i < n; ++i) {
    Problem p = randomProblem(rng, 10 + 20 * (i % 3), /*plainViews=*/true);
    if (i % 2)
      addOverwrites(p, rng);
    addAlternatives(p, rng, 8);
    p.order = rng() % 3 ? Order::Free : rng() % 2 ? Order::Phases : Order::Fixed;
    if (p.order == Order::Fixed) // a fixed order includes the views
      for (Op &op : p.ops)
        if (op.isView())
          p.order = Order::Phases;
    StorageGraph g(p, /*withAlternatives=*/true);
    EditableSchedule source(g);
    SearchState state(g, source.peak() * int64_t(30 + rng() % 60) / 100, rng(),
                      p.order == Order::Free);
    RandomMoves moves(state);
    for (int step = 0; step < 40; ++step) {
      moveAtRandom(state, moves, rng);
      Schedule s = emitSchedule(g, state.schedule().tasks());
      Evaluation judged = evaluate(p, s);
      ASSERT_EQ(judged.error, "") << "problem " << i << ", edit " << step;
      ASSERT_EQ(judged.peakBytes, state.schedule().peak()) << "problem " << i << ", edit " << step;
      ASSERT_NEAR(judged.cost, state.cost(), 1e-6) << "problem " << i << ", edit " << step;
      transfers += judged.transfers;
      stalled += state.cost() > state.schedule().stepCost() + 1e-6;
      for (OpIndex op : s)
        forms += p.ops[op].isAlternative && p.ops[op].transfer == Op::Transfer::None;
    }
    Schedule s = emitSchedule(g, state.schedule().tasks());
    ASSERT_EQ(Slow::peak(p, s), state.schedule().peak());
  }
  EXPECT_GT(transfers, 2000u);
  EXPECT_GT(forms, 2000u);
  EXPECT_GT(stalled, 500u);
}

TEST(EditableSchedule, UndoLeavesNoTrace) {
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    Problem p = randomProblem(rng);
    StorageGraph g(p);
    EditableSchedule source(g);
    SearchState state(g, source.peak() / 2, rng(), true);
    RandomMoves moves(state);
    for (int step = 0; step < 20; ++step)
      moveAtRandom(state, moves, rng);
    state.edits.commit();
    std::vector<TaskId> before = state.schedule().tasks();
    int64_t peak = state.schedule().peak();
    for (int k = 0; k < 5; ++k) {
      size_t size = state.edits.size();
      if (!moves.evictOne(1e300))
        state.edits.undo(size);
      moves.ruin();
      moves.recreate(1e300);
    }
    state.edits.undo();
    ASSERT_EQ(state.schedule().tasks(), before);
    ASSERT_EQ(state.schedule().peak(), peak);
  }
}

TEST(EditLog, RedoesWhatWasUndone) {
  Rng rng(12);
  int redone = 0;
  for (int i = 0; i < 200; ++i) {
    Problem p = randomProblem(rng, 30);
    StorageGraph g(p);
    EditableSchedule source(g);
    SearchState state(g, source.peak() / 2, rng(), true);
    RandomMoves moves(state);
    for (int step = 0; step < 10; ++step)
      moveAtRandom(state, moves, rng);
    state.edits.commit();
    moves.ruin();
    moves.recreate(1e300);
    const std::vector<EditLog::Edit> edits = state.edits.since(0);
    const std::vector<TaskId> after = state.schedule().tasks();
    const int64_t peak = state.schedule().peak();
    state.edits.undo();
    for (int k = 0; k < 5; ++k) { // other edits in between, all undone
      moves.evictOne(1e300);
      state.edits.undo();
    }
    state.edits.redo(edits);
    ASSERT_EQ(state.schedule().tasks(), after) << "problem " << i;
    ASSERT_EQ(state.schedule().peak(), peak) << "problem " << i;
    redone += !edits.empty();
  }
  EXPECT_GT(redone, 50);
}

SearchOptions options(int64_t budget) {
  SearchOptions o;
  o.budgetBytes = budget;
  o.effort = 0.004;
  return o;
}

// Problems of all orders, with forward outputs; some have alternatives.
Problem anyProblem(Rng &rng) {
  Problem p = randomProblem(rng, 12);
  p.order = rng() % 2 ? Order::Free : rng() % 2 ? Order::Fixed : Order::Phases;
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    if (!p.ops[i].isPinned && p.ops[i].phase == plan::OpPhase::Forward && below(rng, 6) == 0)
      p.forwardOutputs.push_back(i);
  if (below(rng, 2))
    addOverwrites(p, rng);
  if (below(rng, 2))
    addAlternatives(p, rng, 6);
  return p;
}

TEST(Planner, MeetsBudgetsOrNamesTheSmallest) {
  Rng rng(3);
  int met = 0, refused = 0;
  for (int i = 0, n = numProblems(400, 10000); i < n; ++i) {
    Problem p = anyProblem(rng);
    Evaluation baseline = evaluate(p, sourceOrder(p));
    int64_t lowest = lowestPeak(p);
    ASSERT_LE(lowest, baseline.peakBytes);
    SearchOptions o = options(lowest + int64_t(rng() % uint64_t(baseline.peakBytes - lowest + 1)));
    PlanResult r = planWithin(p, o);
    ASSERT_EQ(r.planned.error, "") << "problem " << i;
    ASSERT_EQ(evaluate(p, r.schedule).error, "") << "problem " << i;
    ASSERT_EQ(evaluate(p, r.schedule).peakBytes, r.planned.peakBytes);
    ASSERT_EQ(Slow::peak(p, r.schedule), r.planned.peakBytes);
    ASSERT_GE(r.planned.peakBytes, lowest);
    if (r.isWithin) {
      ++met;
      ASSERT_LE(r.planned.peakBytes, o.budgetBytes);
      continue;
    }
    ++refused;
    ASSERT_GT(r.smallestBytes, o.budgetBytes);
    PlanResult again = planWithin(p, options(r.smallestBytes));
    ASSERT_TRUE(again.isWithin) << "problem " << i << ": " << r.smallestBytes;
    ASSERT_LE(again.planned.peakBytes, r.smallestBytes);
  }
  EXPECT_GT(met, 100);
  EXPECT_GT(refused, 20);
}

// The same problem, in which the alternatives' ops exist but replace nothing.
Problem withoutAlternatives(Problem p) {
  for (Op &op : p.ops)
    op.of = Op::kNone;
  return p;
}

// `end` reads `large`, which does not fit beside the workspace of `between`. The other form of
// `end` reads a tenth as much. Neither may run twice: the form runs in place of the op.
TEST(Planner, UsesFormsThatMayNotRepeat) {
  Problem p;
  auto add = [&](const char *name, std::vector<Read> reads, int64_t bytes) -> Op & {
    Op op;
    op.name = name;
    op.cost = 1;
    op.recomputable = false;
    op.inputs = std::move(reads);
    op.outputBytes = {bytes};
    p.ops.push_back(std::move(op));
    return p.ops.back();
  };
  add("large", {}, 100);
  add("first", {{0, 0}}, 10);
  add("between", {{1, 0}}, 10).workspace = 80;
  add("end", {{0, 0}, {2, 0}}, 5);
  p.outputs = {{3, 0}};
  Op &small = add("small", {{0, 0}}, 10);
  small.isAlternative = small.recomputable = true;
  Op &form = add("form of end", {{4, 0}, {2, 0}}, 5);
  form.isAlternative = true;
  form.of = 3;
  EXPECT_FALSE(planWithin(withoutAlternatives(p), options(120)).isWithin);
  const PlanResult r = planWithin(p, options(120));
  ASSERT_TRUE(r.isWithin);
  EXPECT_EQ(r.planned.peakBytes, 120);
  EXPECT_EQ(r.planned.recomputed, 0u);
  EXPECT_EQ(std::count(r.schedule.begin(), r.schedule.end(), 3u), 0);
  EXPECT_EQ(std::count(r.schedule.begin(), r.schedule.end(), 5u), 1);
}

TEST(Planner, IsNoWorseWithAlternatives) {
  Rng rng(9);
  int better = 0, met = 0, copies = 0, helped = 0;
  for (int i = 0, n = numProblems(300, 10000); i < n; ++i) {
    Problem p = randomProblem(rng, 12);
    p.order = rng() % 2 ? Order::Free : rng() % 2 ? Order::Fixed : Order::Phases;
    addAlternatives(p, rng, 8);
    SearchOptions o =
        options(evaluate(p, sourceOrder(p)).peakBytes * int64_t(60 + rng() % 40) / 100);
    PlanResult without = planWithin(withoutAlternatives(p), o), with = planWithin(p, o);
    ASSERT_EQ(with.planned.error, "") << "problem " << i;
    ASSERT_TRUE(with.isWithin || !without.isWithin) << "problem " << i;
    if (with.isWithin && without.isWithin) {
      ASSERT_LE(with.planned.cost, without.planned.cost) << "problem " << i;
    }
    if (with.leastCost) {
      ASSERT_LE(*with.leastCost, with.planned.cost + 1e-9) << "problem " << i;
    }
    met += with.isWithin;
    copies += with.planned.transfers > 0;
    helped += std::any_of(with.schedule.begin(), with.schedule.end(), [&](OpIndex i) {
      return p.ops[i].isAlternative && p.ops[i].of == Op::kNone &&
             p.ops[i].transfer == Op::Transfer::None;
    });
    better +=
        with.isWithin && (!without.isWithin || with.planned.cost < without.planned.cost - 1e-9);
  }
  std::printf("%d within the budget, %d better than without, %d with transfers, %d with what only "
              "forms read\n",
              met, better, copies, helped);
  EXPECT_GT(better, met / 8);
  EXPECT_GT(copies, met / 40);
  EXPECT_GT(helped, met / 80);
}

TEST(Planner, GivesTheSamePlanAgain) {
  Rng rng(4);
  for (int i = 0; i < 30; ++i) {
    Problem p = randomProblem(rng);
    SearchOptions o = options(evaluate(p, sourceOrder(p)).peakBytes * 3 / 4);
    ASSERT_EQ(planWithin(p, o).schedule, planWithin(p, o).schedule);
  }
}

TEST(Planner, PlacesAGivenScheduleWithTheEffortThatIsAskedFor) {
  Rng rng(5);
  Problem p = randomProblem(rng);
  SearchOptions o = options(evaluate(p, sourceOrder(p)).peakBytes);
  o.effort = 7;
  PlacingLimits asked;
  o.arenaOf = [&](const Schedule &, const Evaluation &judged, const PlacingLimits &limits) {
    asked = limits;
    return judged.peakBytes;
  };
  EXPECT_TRUE(judgedPlan(p, sourceOrder(p), o).isWithin);
  EXPECT_EQ(asked.effort, 7);
  EXPECT_EQ(asked.enough, o.budgetBytes);
}

TEST(Planner, RecomputesNothingWithinTheBaseline) {
  Rng rng(5);
  Problem p = randomProblem(rng);
  Evaluation baseline = evaluate(p, sourceOrder(p));
  PlanResult r = planWithin(p, options(baseline.peakBytes));
  EXPECT_TRUE(r.isWithin);
  EXPECT_EQ(r.planned.recomputed, 0u);
}

// If every arena is larger than its peak, plans are tightened and placed several times.
TEST(Planner, PlacesWithinAShareOfTheEffort) {
  Rng rng(10);
  int tightened = 0;
  for (int i = 0; i < 300; ++i) {
    Problem p = randomProblem(rng, 40);
    SearchOptions o = options(evaluate(p, sourceOrder(p)).peakBytes * 8 / 10);
    double spent = 0;
    int placed = 0;
    o.arenaOf = [&](const Schedule &, const Evaluation &judged, const PlacingLimits &limits) {
      spent += limits.effort;
      ++placed;
      return judged.peakBytes + judged.peakBytes / 20;
    };
    PlanResult r = planWithin(p, o);
    if (r.smallestBytes > 0)
      continue; // the search for the smallest budget places more plans
    EXPECT_LE(spent, 0.75 * o.effort) << "problem " << i;
    tightened += placed > 1;
  }
  EXPECT_GT(tightened, 5);
}

// A chain of n ops of equal size and cost, and a backward chain that reads them in reverse order.
Problem chain(uint32_t n) {
  Problem p;
  for (uint32_t i = 0; i <= 2 * n; ++i) {
    Op op;
    op.name = "op" + std::to_string(i);
    op.isPinned = i == 0;
    op.phase = i <= n ? plan::OpPhase::Forward : plan::OpPhase::Backward;
    op.cost = 1;
    op.outputBytes = {10};
    if (i > 0)
      op.inputs = {{i - 1, 0}};
    if (i > n)
      op.inputs.push_back({2 * n + 1 - i, 0});
    p.ops.push_back(op);
  }
  p.outputs = {{2 * n, 0}};
  return p;
}

// The base of a view that may run only once has one instance, in draft plans too.
TEST(Planner, RepeatsNothingBelowAViewThatMayNotRepeat) {
  for (uint32_t at = 2; at < 40; at += 3) {
    Problem p = chain(40);
    Op &view = p.ops[at];
    view.viewOf = 0;
    view.recomputable = false;
    view.cost = 0;
    view.outputBytes.clear();
    p.ops.back().inputs.push_back({at, 0}); // a read after the last reader of the base
    SearchOptions o = options(evaluate(p, sourceOrder(p)).peakBytes / 2);
    o.effort = 1e-6; // so little effort that the draft is the plan
    const PlanResult r = planWithin(p, o);
    ASSERT_TRUE(r.isWithin) << at;
    ASSERT_EQ(evaluate(p, r.schedule).error, "") << at;
    EXPECT_EQ(std::count(r.schedule.begin(), r.schedule.end(), at - 1), 1) << at;
  }
}

// Eight ops and a backward part. If all but k of the values fit, the k cheapest are recomputed.
TEST(Planner, IsOptimalOnAChain) {
  Problem p = chain(8);
  ASSERT_EQ(evaluate(p, sourceOrder(p)).peakBytes, 90);
  struct {
    int64_t budget;
    double again; // recomputations, counted by hand
  } cases[] = {{90, 0}, {80, 1}, {70, 2}, {60, 3}};
  for (auto [budget, again] : cases) {
    SearchOptions o = options(budget);
    o.effort = 0.05;
    PlanResult r = planWithin(p, o);
    ASSERT_TRUE(r.isWithin) << budget;
    EXPECT_EQ(r.planned.cost, 16 + again) << budget;
  }
}

// Some schedules are placed badly. Of all that were placed, the plan is the smallest within the
// price, even where the smallest of all costs more.
TEST(Planner, TakesTheSmallestArenaWithinThePrice) {
  Rng rng(11);
  int dear = 0;
  for (int i = 0; i < 100; ++i) {
    Problem p = chain(16);
    for (Op &op : p.ops) {
      op.cost = double(1 + below(rng, 9));
      op.outputBytes = {int64_t(10 + below(rng, 90))};
    }
    const double baseline = evaluate(p, sourceOrder(p)).cost;
    SearchOptions o = options(0);
    o.effort = 0.02;
    o.smallest = true;
    o.mostAdded = 0.6;
    int64_t smallest = INT64_MAX;
    Rng luck(i);
    o.arenaOf = [&](const Schedule &, const Evaluation &judged, const PlacingLimits &) {
      const int64_t arena = judged.peakBytes * (10 + int64_t(below(luck, 3))) / 10;
      if (overhead(judged.cost, baseline) <= o.mostAdded)
        smallest = std::min(smallest, arena);
      return arena;
    };
    const PlanResult r = planWithin(p, o);
    ASSERT_LE(r.overhead(), o.mostAdded) << "problem " << i;
    EXPECT_EQ(r.arenaBytes, smallest) << "problem " << i;
    dear += r.smallestBytes < r.arenaBytes;
  }
  EXPECT_GT(dear, 50);
}

TEST(Budget, TheArenaStaysWithin) {
  Rng rng(7);
  int met = 0, refused = 0;
  for (int i = 0, n = numProblems(400, 10000); i < n; ++i) {
    Problem p = anyProblem(rng);
    int64_t lowest = lowestPeak(p), most = evaluate(p, sourceOrder(p)).peakBytes;
    SearchOptions o = options(lowest + int64_t(rng() % uint64_t(most - lowest + most / 4 + 1)));
    PlanResult r = planArena(p, o).plan;
    ASSERT_EQ(evaluate(p, r.schedule).error, "") << "problem " << i;
    ASSERT_EQ(evaluate(p, r.schedule).peakBytes, r.planned.peakBytes) << "problem " << i;
    ASSERT_GE(r.arenaBytes, r.planned.peakBytes) << "problem " << i;
    ASSERT_EQ(r.isWithin, r.arenaBytes <= o.budgetBytes) << "problem " << i;
    if (r.isWithin) {
      ++met;
      continue;
    }
    ++refused;
    ASSERT_GT(r.smallestBytes, o.budgetBytes) << "problem " << i;
    PlanResult again = planArena(p, options(r.smallestBytes)).plan;
    ASSERT_TRUE(again.isWithin) << "problem " << i << ": " << r.smallestBytes;
    ASSERT_LE(again.arenaBytes, r.smallestBytes) << "problem " << i;
  }
  EXPECT_GT(met, 100);
  EXPECT_GT(refused, 20);
}

std::string errorOf(const char *json) {
  auto g = parseJointGraph(json, "p.json");
  return g ? "" : toString(g.takeError());
}

TEST(JointGraph, NamesWhatIsWrong) {
  EXPECT_NE(errorOf("{").find("p.json: expected JSON"), std::string::npos);
  EXPECT_NE(errorOf("[]").find("a list 'nodes'"), std::string::npos);
  EXPECT_NE(errorOf(R"({"name": "g", "nodes": [{"id": 1}]})").find("node 0: expected 'id' 0"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"name": "g", "nodes": [{"id": 0, "bytes": -4, "cost": 1}]})")
                .find("expected 'bytes' to be a whole number from 0"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"name": "g", "nodes": [{"id": 0, "bytes": 4, "cost": 1, "inputs": [0]}],
                        "outputs": []})")
                .find("node 0: it reads op 0, which does not come before it"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"name": "g", "nodes": [{"id": 0, "bytes": 4, "cost": 1, "inputs": [],
                        "workspace": 3}], "outputs": [0]})")
                .find("key 'workspace' belongs to format joint-graph/2"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"name": "g", "nodes": [{"id": 0, "bytes": 4, "cost": 1, "inputs": []}],
                        "outputs": [7]})")
                .find("expected 'outputs' to be ids of nodes, found 7"),
            std::string::npos);
  // Outputs of 3 * 2^60 bytes and a workspace of 2^61: each alone would fit.
  EXPECT_NE(errorOf(R"({"format": "joint-graph/2", "name": "g", "nodes": [
                        {"id": 0, "out_bytes": [1152921504606846976, 2305843009213693952],
                         "workspace": 2305843009213693952, "cost": 1, "inputs": []}],
                        "outputs": [0]})")
                .find("node 0: all storages and the largest workspace together need over 2^62"),
            std::string::npos);
}

TEST(JointGraph, SchedulesReadBackAsWritten) {
  Schedule s{0, 1, 2, 1};
  std::string text = printSchedule("g", s);
  auto back = parseSchedule(text, "s.json", "g");
  ASSERT_TRUE(bool(back));
  EXPECT_EQ(*back, s);
  auto other = parseSchedule(text, "s.json", "h");
  EXPECT_NE(toString(other.takeError()).find("the schedule is for graph"), std::string::npos);
}

// A problem of fixed order whose storages are the given buffers: an op makes each of them, and an
// op reads all that end at the same time.
Problem onlyToPlace(const std::vector<Buffer> &buffers, uint32_t steps) {
  Problem p;
  p.order = Order::Fixed;
  auto add = [&](std::vector<Read> inputs, int64_t bytes) {
    Op op;
    op.name = "op";
    op.inputs = std::move(inputs);
    op.outputBytes = {bytes};
    op.cost = 1;
    op.recomputable = false;
    p.ops.push_back(std::move(op));
    return OpIndex(p.ops.size() - 1);
  };
  std::vector<OpIndex> maker(buffers.size());
  std::vector<Read> ends;
  for (uint32_t t = 0; t < steps; ++t) {
    std::vector<Read> dying;
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].begin == t)
        maker[i] = add({}, buffers[i].bytes);
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].end == t + 1)
        dying.push_back({maker[i]});
    if (!dying.empty())
      ends.push_back({add(std::move(dying), 0)});
  }
  p.outputs = {{add(std::move(ends), 0)}};
  return p;
}

TEST(PlanArena, TheOnlyScheduleIsPlacedWithAllEffort) {
  const Problem p = onlyToPlace(hardToPlace(), 10);
  for (double effort : {0.0, 0.1, 10.0}) {
    const PlacedPlan met = planArena(p, {.budgetBytes = 12, .effort = effort});
    EXPECT_TRUE(met.plan.isWithin);
    EXPECT_EQ(met.plan.arenaBytes, 12);
    EXPECT_EQ(met.plan.lowestPeak, 12);
    EXPECT_EQ(met.plan.leastCost, met.plan.planned.cost);
    const PlacedPlan missed = planArena(p, {.budgetBytes = 11, .effort = effort});
    EXPECT_FALSE(missed.plan.isWithin);
    EXPECT_EQ(missed.plan.smallestBytes, 12);
    EXPECT_TRUE(planArena(p, {.smallest = true, .effort = effort}).plan.isWithin);
  }
}

} // namespace
