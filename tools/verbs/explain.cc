#include "ir/file.h"
#include "passes/rewrite/original.h"
#include "passes/simplify/dce.h"
#include "tools/cli/explanation.h"
#include "tools/cli/step.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  PlanOptions plan;
  std::string device = "cpu", of;
  size_t top = 10;
  bool json = false;
};

ExplainOptions explainOptions(const Options &o, const PlanOptions &plan, const Planned &p) {
  ExplainOptions out;
  if (plan.checkpointsGiven)
    out.policy = Policy::Collection;
  else if (!plan.policy.empty())
    out.policy = *parsePolicy(plan.policy);
  out.policyUsed = p.report.policyUsed;
  out.checkpoints = p.checkpoints;
  out.top = o.top;
  out.of = o.of;
  return out;
}

llvm::Error explainPlan(const Options &o) {
  CommandPaths paths;
  auto step = stepToPlan(o.model, o.plan, o.device, paths);
  if (!step)
    return step.takeError();
  auto &[device, g, plan] = *step;
  if (!plan.any() && g.hasClones())
    Console::get().note("the graph is rewritten already, and is explained as it is; with "
                        "--policy, --checkpoints or --budget it is planned anew");
  else if (!plan.any())
    plan.policy = "none";
  const Target &target = device->target();
  auto p = planned(g, plan, target);
  if (!p)
    return p.takeError();

  const Graph original = withoutDeadNodes(originalOf(g));
  const ExplainOptions options = explainOptions(o, plan, *p);
  auto why = explain(p->graph, original, target, options);
  if (!why)
    return why.takeError();
  if (why->planned.bytes != p->report.predictedPeakBytes ||
      why->baseline.bytes != p->report.baselinePeakBytes)
    return makeErrorCode(5,
                         "internal: what is live adds up to {0} and {1} bytes, and the peaks are "
                         "{2} and {3}; please report this",
                         why->baseline.bytes, why->planned.bytes, p->report.baselinePeakBytes,
                         p->report.predictedPeakBytes);
  ExplainedPlan e{*p, original, *why, options, o.model.model, target.name};
  llvm::outs() << (o.json ? explanationJson(e) : explanationText(e));
  return p->wasInterrupted ? interruptedError() : llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanOptions(app, o->plan);
  app.add_option("--device", o->device, "the device that sizes and workspaces are meant for")
      ->capture_default_str();
  app.add_option("--top", o->top, "how many tensors are told of, the largest first")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--of", o->of, "tell of these tensors instead: names with * and ?, comma between");
  app.add_flag("--json", o->json, "as JSON, schema isthmus.explain/1");
  return [o] { return explainPlan(*o); };
}

} // namespace

const Verb kExplain = {"explain", "tells why the plan that opt would make is as it is",
                       "isthmus explain unet.onnx --dim N=2 --loss=cross_entropy --budget=60%",
                       setUp};

} // namespace isthmus
