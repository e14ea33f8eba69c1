#include "passes/compile/within_budget.h"

#include "passes/place/place.h"
#include "passes/plan/bound.h"
#include "passes/rewrite/rematerialize.h"

namespace isthmus {
namespace {

OffsetOptions offsetOptions(const plan::Problem &p, const plan::PlacingLimits &limits) {
  const double most = 5 + 1e-4 * double(p.ops.size());
  return {.enough = limits.enough, .effort = std::min(limits.effort, most), .goOn = limits.goOn};
}

} // namespace

plan::PlanResult replayed(const plan::Problem &p, plan::Schedule s, plan::SearchOptions o) {
  o.arenaOf = [&](const plan::Schedule &s, const plan::Evaluation &judged,
                  const plan::PlacingLimits &limits) {
    const OffsetOptions asked = {.enough = limits.enough, .effort = limits.effort};
    return placeSchedule(p, s, judged.peakBytes, asked).arenaBytes;
  };
  plan::PlanResult r = plan::judgedPlan(p, std::move(s), o);
  r.smallestBytes = r.arenaBytes;
  return r;
}

PlacedPlan planArena(const plan::Problem &p, plan::SearchOptions o) {
  struct Placed {
    plan::Schedule schedule;
    ScheduleLayout layout;
  };
  std::vector<Placed> all;
  o.arenaOf = [&](const plan::Schedule &s, const plan::Evaluation &judged,
                  const plan::PlacingLimits &limits) {
    all.push_back({s, placeSchedule(p, s, judged.peakBytes, offsetOptions(p, limits))});
    return all.back().layout.arenaBytes;
  };
  PlacedPlan out{plan::planWithin(p, o), {}};
  for (Placed &placed : all)
    if (placed.layout.arenaBytes == out.plan.arenaBytes && placed.schedule == out.plan.schedule)
      out.layout = std::move(placed.layout);
  return out;
}

void makeMonotone(const plan::Problem &p, std::vector<CurvePoint> &falling) {
  for (size_t i = falling.size(); i-- > 1;) {
    const plan::PlanResult &less = falling[i].plan;
    plan::PlanResult &more = falling[i - 1].plan;
    if (!less.isWithin || (more.isWithin && more.planned.cost <= less.planned.cost))
      continue;
    more = less;
    more.leastCost = plan::leastCostAtAll(p); // a smaller budget's bound may not hold here
    more.pricePerByte = 0;
  }
}

std::vector<CurvePoint> planCurve(const plan::Problem &p, const std::vector<int64_t> &budgets,
                                  const plan::SearchOptions &options) {
  std::vector<CurvePoint> curve;
  bool isStopped = false;
  for (int64_t budget : budgets) {
    plan::SearchOptions o = options;
    o.budgetBytes = budget;
    const double done = double(curve.size()) / double(budgets.size());
    if (options.progress)
      o.progress = [&](plan::SearchProgress now) {
        now.share = done + now.share / double(budgets.size());
        isStopped = !options.progress(now);
        return !isStopped;
      };
    curve.push_back({budget, planArena(p, o).plan});
    if (!curve.back().plan.isWithin || isStopped)
      break;
  }
  makeMonotone(p, curve);
  return curve;
}

// Searches a smaller arena for the final plan if its arena is not close to the peak: the plan
// search accepts any arena within its budget.
static llvm::Error placeCloser(PlannedGraph &planned, const Target &target) {
  if (isCloseToPeak(planned.layout.arenaBytes, planned.layout.peakBytes))
    return llvm::Error::success();
  auto layout = place(planned.graph, target);
  if (!layout)
    return layout.takeError();
  if (layout->arenaBytes < planned.layout.arenaBytes)
    planned.layout = std::move(*layout);
  return llvm::Error::success();
}

llvm::Expected<PlannedGraph> planGraph(const Graph &g, const GraphProblem &p, const Target &target,
                                       plan::SearchOptions o) {
  struct Placed {
    plan::Schedule schedule;
    Layout layout;
  };
  std::vector<Placed> all;
  llvm::Error error = llvm::Error::success();
  o.arenaOf = [&](const plan::Schedule &s, const plan::Evaluation &,
                  const plan::PlacingLimits &limits) -> int64_t {
    auto layout = place(rematerialize(g, p, s), target, offsetOptions(p.problem, limits));
    if (!layout) {
      error = llvm::joinErrors(std::move(error), layout.takeError());
      return 0;
    }
    all.push_back({s, std::move(*layout)});
    return all.back().layout.arenaBytes;
  };
  PlannedGraph out;
  out.plan = plan::planWithin(p.problem, o);
  if (error)
    return error;
  if (const std::string &why = out.plan.planned.error; !why.empty())
    return internalError("a plan is not valid: {0}", why);
  out.graph = rematerialize(g, p, out.plan.schedule);
  for (Placed &placed : all)
    if (placed.schedule == out.plan.schedule && placed.layout.arenaBytes == out.plan.arenaBytes)
      out.layout = std::move(placed.layout);
  if (out.plan.isWithin && !o.smallest)
    if (llvm::Error e = placeCloser(out, target))
      return e;
  return out;
}

} // namespace isthmus
