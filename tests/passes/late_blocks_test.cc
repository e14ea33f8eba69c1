// Tests blocks of tasks that move to later places: the order stays valid, and live bytes fall.

#include "passes/plan/search/emit_schedule.h"
#include "passes/plan/search/late_blocks.h"
#include "tests/passes/random_problem.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace isthmus::plan {
namespace {

std::vector<TaskId> sourceTasks(const StorageGraph &g) {
  std::vector<TaskId> tasks;
  for (TaskId t : g.tasks.ids())
    tasks.push_back(t);
  return tasks;
}

Evaluation evaluatedInLateBlocks(const Problem &p) {
  const StorageGraph g(p);
  return evaluate(p, emitSchedule(g, withLateBlocks(g, sourceTasks(g))));
}

OpIndex add(Problem &p, int64_t bytes, const std::vector<OpIndex> &reads, OpPhase phase) {
  Op op;
  op.name = "op" + std::to_string(p.ops.size());
  op.phase = phase;
  op.cost = 1;
  op.outputBytes = {bytes};
  for (OpIndex r : reads)
    op.inputs.push_back({r, 0});
  p.ops.push_back(op);
  return OpIndex(p.ops.size() - 1);
}

// Backward steps of a recurrent network: each makes the gradient of its part of one input, which
// is spread over zeros and added to those of others. The sums take as much as all parts.
TEST(LateBlocks, SumsOfLargeGradientsWaitForTheirParts) {
  constexpr int kSteps = 20;
  Problem p;
  p.alignment = 1;
  std::vector<OpIndex> saved;
  for (int i = 0; i < kSteps; ++i)
    saved.push_back(
        add(p, 100, i ? std::vector{saved.back()} : std::vector<OpIndex>{}, OpPhase::Forward));
  OpIndex sum = 0, part = saved.back();
  for (int i = kSteps; i-- > 0;) {
    part = add(p, 10, {part, saved[size_t(i)]}, OpPhase::Backward);
    const OpIndex spread = add(p, 10 * kSteps, {part}, OpPhase::Backward);
    sum = i + 1 == kSteps ? spread : add(p, 10 * kSteps, {sum, spread}, OpPhase::Backward);
  }
  p.outputs = {{sum, 0}};
  const int64_t saves = 100 * kSteps;
  EXPECT_EQ(evaluate(p, sourceOrder(p)).peakBytes, saves + 2 * 10 * kSteps + 10);
  const Evaluation late = evaluatedInLateBlocks(p);
  EXPECT_EQ(late.error, "");
  EXPECT_EQ(late.peakBytes, saves + 10);
}

// A task that makes less than it frees stays, unless it is in a block that makes more.
TEST(LateBlocks, BlocksMoveAsAWhole) {
  Problem p;
  p.alignment = 1;
  const OpIndex large = add(p, 100, {}, OpPhase::Forward);
  const OpIndex small = add(p, 10, {large}, OpPhase::Forward); // frees 100
  const OpIndex other = add(p, 50, {}, OpPhase::Forward);
  const OpIndex output = add(p, 20, {other}, OpPhase::Forward);
  const OpIndex last = add(p, 1, {small}, OpPhase::Forward);
  p.outputs = {{output, 0}, {last, 0}};
  const StorageGraph g(p);
  std::vector<OpIndex> sources;
  for (TaskId t : withLateBlocks(g, sourceTasks(g)))
    sources.push_back(g.tasks[t].source);
  EXPECT_EQ(sources, (std::vector<OpIndex>{other, output, large, small, last}));
}

TEST(LateBlocks, TasksBeforeTheFirstStay) {
  Problem p;
  p.alignment = 1;
  for (int i = 0; i < 2; ++i)
    add(p, 100, {}, OpPhase::Forward);
  const OpIndex output = add(p, 1, {}, OpPhase::Forward);
  const OpIndex last = add(p, 1, {0, 1}, OpPhase::Backward);
  p.outputs = {{output, 0}, {last, 0}};
  const StorageGraph g(p);
  auto sources = [&](size_t first) {
    std::vector<OpIndex> out;
    for (TaskId t : withLateBlocks(g, sourceTasks(g), first))
      out.push_back(g.tasks[t].source);
    return out;
  };
  EXPECT_EQ(sources(0), (std::vector<OpIndex>{output, 0, 1, last}));
  EXPECT_EQ(sources(1), (std::vector<OpIndex>{0, output, 1, last}));
  EXPECT_EQ(sources(2), (std::vector<OpIndex>{0, 1, output, last}));
}

TEST(LateBlocks, RandomOrdersStayValid) {
  Rng rng(5);
  int numLower = 0;
  for (int i = 0; i < 3000; ++i) {
    const Problem p = randomProblem(rng, 30);
    const StorageGraph g(p);
    std::vector<TaskId> order = withLateBlocks(g, sourceTasks(g), below(rng, 2) * below(rng, 20));
    const Evaluation e = evaluate(p, emitSchedule(g, order));
    EXPECT_EQ(e.error, "");
    numLower += e.peakBytes < evaluate(p, sourceOrder(p)).peakBytes;
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, sourceTasks(g));
  }
  EXPECT_GT(numLower, 300);
}

} // namespace
} // namespace isthmus::plan
