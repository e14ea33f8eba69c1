// Plans against the exact answer, on problems so small that all schedules can be tried.

#include "passes/plan/bound.h"
#include "passes/plan/planner.h"
#include "tests/passes/everything.h"
#include "tests/passes/small_problem.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace isthmus;
using namespace isthmus::plan;

namespace {

// ISTHMUS_FULL=1: all of them.
int numProblems(int sampled, int all) { return std::getenv("ISTHMUS_FULL") ? all : sampled; }

constexpr Order kOrders[] = {Order::Free, Order::Phases, Order::Fixed};
constexpr const char *kOrderNames[] = {"free", "phases", "fixed"};

PlanOptions options(int64_t budget) {
  PlanOptions o;
  o.budgetBytes = budget;
  o.effort = std::getenv("EFF") ? atof(std::getenv("EFF")) : 0.01;
  return o;
}

std::string describe(const Problem &p) {
  std::string out = "order " + std::to_string(int(p.order)) + ", alignment " +
                    std::to_string(p.alignment) + "\n";
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const Op &op = p.ops[i];
    out += std::to_string(i) + (op.phase == Phase::Forward ? " fwd" : " bwd") + " reads";
    for (const Read &r : op.inputs)
      out += " " + std::to_string(r.op) + "." + std::to_string(r.output);
    out += " bytes";
    for (int64_t b : op.outputBytes)
      out += " " + std::to_string(b);
    out += " cost " + std::to_string(int(op.cost)) + " workspace " + std::to_string(op.workspace);
    for (const Op::Reuse &r : op.mayReuse)
      out += " reuse " + std::to_string(r.output) + "<-" + std::to_string(r.input);
    out += op.isView() ? " view of input " + std::to_string(op.viewOf) : std::string();
    out += std::string(op.persistent ? " persistent" : "") + (op.recomputable ? "" : " once") + "\n";
  }
  out += "outputs";
  for (const Read &r : p.outputs)
    out += " " + std::to_string(r.op) + "." + std::to_string(r.output);
  out += "; forward outputs";
  for (OpIndex i : p.forwardOutputs)
    out += " " + std::to_string(i);
  return out + "\n";
}

std::string text(const Schedule &s) {
  std::string out;
  for (OpIndex i : s)
    out += std::to_string(i) + " ";
  return out;
}

struct Tally {
  int problems = 0, met = 0, cheapest = 0, lowest = 0;
  double worstPeak = 1, worstCost = 1; // as a multiple of the least

  void add(const Tally &t) {
    problems += t.problems;
    met += t.met;
    cheapest += t.cheapest;
    lowest += t.lowest;
    worstPeak = std::max(worstPeak, t.worstPeak);
    worstCost = std::max(worstCost, t.worstCost);
  }
};

void compare(const Problem &p, Rng &rng, Tally &tally) {
  Evaluation source = evaluate(p, sourceOrder(p));
  ASSERT_EQ(source.error, "");
  Everything all(p);
  const int64_t least = all.leastPeak();
  Evaluation witness = evaluate(p, all.schedule());
  ASSERT_EQ(witness.error, "");
  ASSERT_EQ(witness.peakBytes, least);
  ASSERT_LE(lowestPeak(p), least);

  PlanOptions o = options(0);
  o.smallest = true;
  PlanResult low = planWithin(p, o);
  ASSERT_EQ(low.planned.error, "") << text(low.schedule);
  ASSERT_GE(low.planned.peakBytes, least) << text(low.schedule);
  ++tally.problems;
  tally.lowest += low.planned.peakBytes == least;
  tally.worstPeak = std::max(tally.worstPeak, double(low.planned.peakBytes) / double(least));
  if (std::getenv("ISTHMUS_SHOW") && low.planned.peakBytes > least)
    std::printf("least %ld, planned %ld: %s\n%s", long(least), long(low.planned.peakBytes),
                text(all.schedule()).c_str(), describe(p).c_str());

  int64_t budget = least + int64_t(below(rng, uint64_t(source.peakBytes - least + 1)));
  const double cost = all.leastCost(budget);
  witness = evaluate(p, all.schedule());
  ASSERT_EQ(witness.error, "");
  ASSERT_LE(witness.peakBytes, budget);
  ASSERT_EQ(witness.cost, cost);
  PlanResult r = planWithin(p, options(budget));
  ASSERT_EQ(r.planned.error, "") << text(r.schedule);
  if (!r.isWithin) {
    ASSERT_GT(r.smallestBytes, budget);
    tally.worstPeak = std::max(tally.worstPeak, double(r.smallestBytes) / double(least));
    return;
  }
  ASSERT_LE(r.planned.peakBytes, budget);
  ASSERT_GE(r.planned.cost, cost - 1e-9) << text(r.schedule);
  ++tally.met;
  tally.cheapest += r.planned.cost <= cost + 1e-9;
  tally.worstCost = std::max(tally.worstCost, r.planned.cost / cost);
  if (std::getenv("ISTHMUS_SHOW") && r.planned.cost > cost + 1e-9)
    std::printf("budget %ld, cost %g, planned %g: %s\n%s", long(budget), cost, r.planned.cost,
                text(all.schedule()).c_str(), describe(p).c_str());
}

TEST(Planner, IsOptimalOnMostSmallProblems) {
  Rng rng(1);
  for (Order order : kOrders) {
    Tally ofOrder;
    for (Shape shape : kShapes) {
      Tally tally;
      for (int i = 0, n = numProblems(60, 600); i < n; ++i) {
        Problem p = SmallProblem::make(rng, shape);
        p.order = order;
        compare(p, rng, tally);
        ASSERT_FALSE(HasFatalFailure())
            << kShapeNames[int(shape)] << " problem " << i << "\n" << describe(p);
      }
      std::printf("%-6s %-5s: %d problems, least peak in %d (%.3f at worst), budget met in %d, "
                  "cheapest %d (%.3f)\n",
                  kOrderNames[int(order)], kShapeNames[int(shape)], tally.problems, tally.lowest,
                  tally.worstPeak, tally.met, tally.cheapest, tally.worstCost);
      ofOrder.add(tally);
    }
  }
}

} // namespace
