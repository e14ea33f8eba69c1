#include "tests/random/schedules.h"

#include "passes/checkpoint/policy.h"
#include "passes/plan/checkpoint_schedule.h"
#include "tools/random/random_graph.h"

namespace isthmus {
namespace {

plan::Schedule randomKeeping(const plan::Problem &p, Random &random) {
  std::vector<std::vector<bool>> keep;
  size_t share = 1 + random.below(5);
  for (const plan::Op &op : p.ops) {
    keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()));
    for (size_t o = 0; o < keep.back().size(); ++o)
      keep.back()[o] = random.oneIn(share);
  }
  return plan::checkpointSchedule(p, keep);
}

// Any op that may, again at any place, any number of times.
plan::Schedule randomRecomputing(const plan::Problem &p, Random &random) {
  plan::Schedule s;
  for (plan::OpIndex op : plan::sourceOrder(p)) {
    s.push_back(op);
    while (random.oneIn(4)) {
      plan::OpIndex again = s[random.below(s.size())];
      if (p.ops[again].recomputable)
        s.push_back(again);
    }
  }
  return s;
}

// A list of names of forward values; those that a list cannot name are left out.
std::string randomCheckpoints(const Graph &g, Random &random) {
  std::string list;
  size_t share = 1 + random.below(5);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    for (uint32_t r = 0; n.phase == Phase::Forward && r < n.numResults; ++r)
      if (llvm::StringRef name = g.valueName(n.result(r)); random.oneIn(share))
        if (!name.contains('"'))
          list += (list.empty() ? "\"" : ",\"") + name.str() + "\"";
  }
  return list;
}

} // namespace

llvm::Expected<std::vector<NamedSchedule>> schedulesOf(const Graph &g, const GraphProblem &p,
                                                       uint64_t seed) {
  Random random(seed);
  std::vector<NamedSchedule> out;
  out.push_back({"random keeping", randomKeeping(p.problem, random)});
  out.push_back({"random recomputing", randomRecomputing(p.problem, random)});
  for (const PolicyOptions &o : {PolicyOptions{Policy::None, ""},
                                 {Policy::Speed, ""},
                                 {Policy::Memory, ""},
                                 {Policy::Collection, ""},
                                 {Policy::Collection, randomCheckpoints(g, random)}}) {
    const std::string name =
        policyName(o.policy).str() + (o.checkpoints.empty() ? "" : " of ") + o.checkpoints;
    auto plan = planPolicy(g, p, o);
    if (!plan) { // no matrix product, no mark, nothing to recompute
      llvm::consumeError(plan.takeError());
      continue;
    }
    if (plan->planned.peakBytes > plan->baseline.peakBytes)
      return makeError("policy {0} needs more than no policy", name);
    out.push_back({"policy " + name, plan->schedule});
  }
  return out;
}

} // namespace isthmus
