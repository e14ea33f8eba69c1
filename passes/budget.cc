#include "passes/budget.h"

#include "passes/place.h"
#include "passes/rematerialize.h"

namespace isthmus {

FittedPlan fitArena(const plan::Problem &p, plan::PlanOptions o,
                    llvm::function_ref<int64_t(const plan::PlanResult &)> arenaOf) {
  constexpr int kMostAttempts = 8;
  const int64_t most = o.budgetBytes;
  FittedPlan out;
  for (int i = 0; i < kMostAttempts && !o.smallest; ++i) {
    out.plan = plan::planWithin(p, o);
    if (!out.plan.isWithin)
      break;
    out.arenaBytes = arenaOf(out.plan);
    out.isWithin = out.arenaBytes <= most;
    if (out.isWithin)
      return out;
    // Half as much again, for the next one packs differently.
    o.budgetBytes -= std::max((out.arenaBytes - most) * 3 / 2, p.alignment);
  }
  // The same plan whatever was asked for, so that the figure it gives is met when it is asked for.
  bool wasAsked = std::exchange(o.smallest, true);
  out.plan = plan::planWithin(p, o);
  out.arenaBytes = out.smallestBytes = arenaOf(out.plan);
  out.isWithin = wasAsked || out.arenaBytes <= most;
  return out;
}

FittedPlan fitArena(const plan::Problem &p, const plan::PlanOptions &options) {
  return fitArena(p, options, [&](const plan::PlanResult &r) {
    std::vector<Block> blocks;
    for (const plan::Lifetime &l : plan::lifetimes(p, r.schedule))
      blocks.push_back({l.bytes, l.first, l.last});
    return pack(blocks, r.planned.peakBytes);
  });
}

llvm::Expected<FittedGraph> fitGraph(const Graph &g, const GraphProblem &p, const Target &target,
                                     const plan::PlanOptions &options) {
  FittedGraph out;
  llvm::Error error = llvm::Error::success();
  out.plan = fitArena(p.problem, options, [&](const plan::PlanResult &r) -> int64_t {
    out.graph = rematerialize(g, p, r.schedule);
    auto layout = place(out.graph, target);
    if (!layout) {
      error = llvm::joinErrors(std::move(error), layout.takeError());
      return 0;
    }
    out.layout = std::move(*layout);
    return out.layout.arenaBytes;
  });
  if (error)
    return error;
  if (const std::string &why = out.plan.plan.planned.error; !why.empty())
    return makeErrorCode(5, "internal: a plan is not valid: {0}; please report this", why);
  return out;
}

} // namespace isthmus
