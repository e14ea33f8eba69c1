#include "tools/cli/planned.h"

#include "passes/dce.h"
#include "passes/original.h"
#include "passes/place.h"
#include "passes/rematerialize.h"
#include "tools/cli/console.h"
#include <chrono>

namespace isthmus {
namespace {

size_t countClones(const Graph &g) {
  size_t n = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    n += g.node(NodeId(i)).isClone();
  return n;
}

PolicyOptions policyOptions(const PlanOptions &o) {
  PolicyOptions p;
  if (o.checkpointsGiven)
    p.policy = Policy::Collection;
  else if (!o.policy.empty())
    p.policy = *parsePolicy(o.policy);
  p.checkpoints = o.checkpoints;
  return p;
}

} // namespace

llvm::Expected<Planned> planned(const Graph &given, const PlanOptions &o, const Target &target) {
  auto start = std::chrono::steady_clock::now();
  bool keepsClones = given.hasClones() && !o.any();
  Graph source = withoutDeadNodes(originalOf(given));
  auto problem = extractProblem(source, target);
  if (!problem)
    return problem.takeError();

  Planned out;
  Report &r = out.report;
  PolicyOptions policy = policyOptions(o);
  auto plan = planPolicy(source, *problem, policy);
  if (!plan)
    return plan.takeError();
  for (const std::string &note : plan->notes)
    Console::get().note(note);
  r.baselinePeakBytes = plan->baseline.peakBytes;

  plan::Evaluation figures = plan->planned;
  if (keepsClones) {
    out.graph = given;
    if (auto made = given.meta.find("target");
        made != given.meta.end() && made->second != target.name)
      Console::get().note("the graph was rewritten for '" + made->second +
                          "'; sizes and places are found anew for '" + target.name + "'");
    auto asItIs = extractProblem(given, target);
    if (!asItIs)
      return asItIs.takeError();
    figures = plan::evaluate(asItIs->problem, plan::sourceOrder(asItIs->problem));
    r.policyUsed = given.meta.count("policy") ? given.meta.at("policy") : "as written";
  } else {
    out.graph = rematerialize(source, *problem, plan->schedule);
    out.graph.meta["target"] = target.name;
    out.graph.meta["policy"] = plan->policyUsed;
    r.policyUsed = plan->policyUsed;
    for (ValueId v : plan->checkpoints)
      if (ValueId now = out.graph.find(source.valueName(v)))
        out.checkpoints.push_back(now);
  }
  r.predictedPeakBytes = figures.peakBytes;
  r.outputBytes = figures.outputBytes;
  r.recomputeOverhead = plan->baseline.cost > 0 ? figures.cost / plan->baseline.cost - 1 : 0;

  auto layout = place(out.graph, target);
  if (!layout)
    return layout.takeError();
  if (layout->peakBytes != r.predictedPeakBytes)
    return makeErrorCode(
        5, "internal: the plan's peak is {0} bytes, the layout's {1}; please report this",
        r.predictedPeakBytes, layout->peakBytes);
  out.layout = std::move(*layout);
  r.arenaBytes = out.layout.arenaBytes;
  r.persistentBytes = persistentBytes(out.graph, target);
  r.nodes = out.graph.numNodes();
  r.clones = countClones(out.graph);
  r.planSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (r.predictedPeakBytes > (1 << 20) &&
      double(r.arenaBytes) > 1.01 * double(r.predictedPeakBytes))
    Console::get().note("the arena is " + bytesText(r.arenaBytes - r.predictedPeakBytes) +
                        " larger than the peak: the least that was found");
  return out;
}

} // namespace isthmus
