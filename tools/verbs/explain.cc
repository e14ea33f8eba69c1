#include "ir/file.h"
#include "tools/cli/exit.h"
#include "tools/cli/explanation.h"
#include "tools/cli/report_json.h"
#include "tools/cli/stage_flags.h"
#include "tools/cli/stages_text.h"
#include "tools/cli/step.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  PlanFlags plan;
  std::string device = "cpu", of;
  size_t top = 10;
  bool json = false;
};

ExplainOptions explainOptions(const Options &o, const PlanChoice &plan, const Compiled &c) {
  ExplainOptions out;
  if (const auto *policy = std::get_if<PolicyOptions>(&plan)) {
    out.policy = policy->policy;
    out.smallestCheckpoint = policy->smallestCheckpoint;
  }
  out.policyUsed = c.figures.policyUsed;
  out.checkpoints = c.checkpoints;
  out.top = o.top;
  out.of = o.of;
  return out;
}

// A step over several devices: what each of them needs, and what bounds the step.
llvm::Error explainStages(const Options &o, const Compiled &c) {
  if (!o.of.empty())
    return usageError("--of shows tensors of a step on one device, and this one runs on {0}; "
                      "`isthmus view` shows the tensors of each",
                      c.programs.size());
  const Report report(c.figures);
  if (o.json) {
    llvm::outs() << jsonText(reportJson(report), 2) << "\n";
    return llvm::Error::success();
  }
  llvm::outs() << stagesText(report) << boundText(report);
  return llvm::Error::success();
}

llvm::Error explainPlan(const Options &o) {
  CommandPaths paths;
  auto step = stepToCompile(o.model, o.plan, o.device, paths);
  if (!step)
    return step.takeError();
  auto &[device, g, compile, given] = *step;
  if (!o.plan.any() && o.plan.machine.empty() && g.wasPlanned())
    Console::get().note("the graph is rewritten already, and is explained as it is; with "
                        "--policy, --checkpoints or --budget it is planned anew");
  else if (!o.plan.any() && o.plan.machine.empty())
    compile.plan = PolicyOptions();
  compile.findsKnee = true;
  const Target &target = device->target();
  compile.mostNodes = kMostNodesOfFigures;
  auto c = compiled(std::move(g), compile, target);
  if (!c)
    return c.takeError();

  if (!c->figures.stages.empty())
    return explainStages(o, *c);
  const ExplainOptions options = explainOptions(o, compile.plan, *c);
  auto why = explain(c->graph, c->original, target, options);
  if (!why)
    return why.takeError();
  if (why->planned.bytes != c->figures.predictedPeakBytes ||
      why->baseline.bytes != c->figures.baselinePeakBytes)
    return internalError("what is live adds up to {0} and {1} bytes, and the peaks are {2} and {3}",
                         why->baseline.bytes, why->planned.bytes, c->figures.baselinePeakBytes,
                         c->figures.predictedPeakBytes);
  ExplainedPlan e{*c, *why, options, o.model.model, target.name};
  llvm::outs() << (o.json ? explanationJson(e) : explanationText(e));
  return c->wasInterrupted ? interruptedError() : llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanFlags(app, o->plan);
  addMachineFlag(app, o->plan);
  app.add_option("--device", o->device, "the device that sizes and workspaces are meant for")
      ->capture_default_str();
  app.add_option("--top", o->top, "how many tensors to show, the largest first")
      ->capture_default_str()
      ->check(nonNegativeInteger());
  app.add_option("--of", o->of,
                 "show these tensors instead: names with * and ?, separated by commas");
  app.add_flag("--json", o->json,
               "as JSON, schema isthmus.explain/1; over several devices isthmus.report/1");
  return [o] { return explainPlan(*o); };
}

} // namespace

const Verb kExplain = {"explain", "gives the reasons for the plan that opt would make",
                       "isthmus explain unet.onnx --dim N=2 --loss=cross_entropy --budget=60%",
                       setUp};

} // namespace isthmus
