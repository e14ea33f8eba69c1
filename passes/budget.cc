#include "passes/budget.h"

#include "passes/place.h"
#include "passes/rematerialize.h"

namespace isthmus {

plan::PlanResult planArena(const plan::Problem &p, plan::PlanOptions o) {
  const double effort = o.effort > 0 ? o.effort : plan::defaultEffort(p.ops.size());
  o.arenaOf = [&](const plan::Schedule &s, const plan::Evaluation &judged, int64_t enough) {
    std::vector<Block> blocks;
    for (const plan::Lifetime &l : plan::lifetimes(p, s))
      blocks.push_back({l.bytes, l.first, l.last});
    return pack(blocks, judged.peakBytes, {.enough = enough, .effort = effort / 10});
  };
  return plan::planWithin(p, o);
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
