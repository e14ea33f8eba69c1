#include "passes/budget.h"

#include "passes/place.h"
#include "passes/plan/bound.h"
#include "passes/rematerialize.h"

namespace isthmus {
namespace {

int64_t arenaOf(const plan::Problem &p, const plan::Schedule &s, const plan::Evaluation &judged,
                const PackOptions &options) {
  std::vector<Block> blocks;
  for (const plan::Lifetime &l : plan::lifetimes(p, s))
    blocks.push_back({l.bytes, l.first, l.last});
  return pack(blocks, judged.peakBytes, options);
}

// For one plan after the other. The first is worth more than those after it, which cost more.
class PackShares {
public:
  PackShares(const plan::PlanOptions &o, size_t numOps) : effort_(plan::effortOf(o, numOps)) {}

  PackOptions next(int64_t enough) {
    const double share = enough > 0 && std::exchange(isFirst_, false) ? 0.25 : 0.1;
    return {.enough = enough, .effort = share * effort_};
  }

private:
  double effort_;
  bool isFirst_ = true;
};

} // namespace

plan::PlanResult replayed(const plan::Problem &p, const plan::Schedule &s,
                          const plan::PlanOptions &options) {
  plan::PlanResult r;
  r.schedule = s;
  r.planned = plan::evaluate(p, s);
  r.baseline = plan::evaluate(p, plan::sourceOrder(p));
  r.arenaBytes = arenaOf(p, s, r.planned, {.enough = options.budgetBytes});
  r.isWithin = options.smallest || r.arenaBytes <= options.budgetBytes;
  r.smallestBytes = r.arenaBytes;
  r.lowestPeak = plan::lowestPeak(p);
  r.leastCost = plan::leastCostAtAll(p);
  return r;
}

plan::PlanResult planArena(const plan::Problem &p, plan::PlanOptions o) {
  PackShares shares(o, p.ops.size());
  o.arenaOf = [&](const plan::Schedule &s, const plan::Evaluation &judged, int64_t enough) {
    return arenaOf(p, s, judged, shares.next(enough));
  };
  return plan::planWithin(p, o);
}

void makeMonotone(const plan::Problem &p, std::vector<CurvePoint> &falling) {
  for (size_t i = falling.size(); i-- > 1;) {
    const plan::PlanResult &less = falling[i].plan;
    plan::PlanResult &more = falling[i - 1].plan;
    if (!less.isWithin || (more.isWithin && more.planned.cost <= less.planned.cost))
      continue;
    more = less;
    more.leastCost = plan::leastCostAtAll(p); // what holds for less room need not for more
    more.pricePerByte = 0;
  }
}

std::vector<CurvePoint> planCurve(const plan::Problem &p, const std::vector<int64_t> &budgets,
                                  const plan::PlanOptions &options) {
  std::vector<CurvePoint> curve;
  bool isStopped = false;
  for (int64_t budget : budgets) {
    plan::PlanOptions o = options;
    o.budgetBytes = budget;
    const double done = double(curve.size()) / double(budgets.size());
    if (options.progress)
      o.progress = [&](plan::PlanProgress now) {
        now.share = done + now.share / double(budgets.size());
        isStopped = !options.progress(now);
        return !isStopped;
      };
    curve.push_back({budget, planArena(p, o)});
    if (!curve.back().plan.isWithin || isStopped)
      break;
  }
  makeMonotone(p, curve);
  return curve;
}

llvm::Expected<PlannedGraph> planGraph(const Graph &g, const GraphProblem &p, const Target &target,
                                       plan::PlanOptions o) {
  PlannedGraph out;
  plan::Schedule placed; // whose graph and layout `out` has
  llvm::Error error = llvm::Error::success();
  auto placeIt = [&](const plan::Schedule &s) -> int64_t {
    placed = s;
    out.graph = rematerialize(g, p, s);
    auto layout = place(out.graph, target);
    if (!layout) {
      error = llvm::joinErrors(std::move(error), layout.takeError());
      return 0;
    }
    out.layout = std::move(*layout);
    return out.layout.arenaBytes;
  };
  o.arenaOf = [&](const plan::Schedule &s, const plan::Evaluation &, int64_t) {
    return placeIt(s);
  };
  out.plan = plan::planWithin(p.problem, o);
  if (placed != out.plan.schedule)
    placeIt(out.plan.schedule);
  if (error)
    return error;
  if (const std::string &why = out.plan.planned.error; !why.empty())
    return makeErrorCode(5, "internal: a plan is not valid: {0}; please report this", why);
  return out;
}

} // namespace isthmus
