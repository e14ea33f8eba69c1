#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/execute.h"
#include "tools/cli/feeds.h"
#include "tools/cli/model.h"
#include "tools/verbs/verbs.h"
#include <algorithm>

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  PlanOptions plan;
  std::string device = "cpu", outputs, report;
  int steps = 1;
};

void summarize(const Report &r, const std::string &device) {
  Console &c = Console::get();
  auto row = [&](const char *name, const std::string &value) {
    c.line(llvm::formatv("{0,-20}{1}", name, value).str());
  };
  if (!r.loss.empty())
    row("loss", llvm::formatv("{0}", floatText(r.loss.back())).str());
  row("baseline peak", bytesText(r.baselinePeakBytes));
  row("predicted peak", bytesText(r.predictedPeakBytes));
  row("measured peak", bytesText(r.measuredPeakBytes.front()) + " (on " + device + ")");
  row("arena", bytesText(r.arenaBytes));
  row("parameters, inputs", bytesText(r.persistentBytes));
  row("added cost", llvm::formatv("{0:F1} %", 100 * r.recomputeOverhead).str());
  std::vector<double> s = r.stepSeconds;
  std::sort(s.begin(), s.end());
  row("step time",
      secondsText(s[s.size() / 2]) +
          (s.size() > 1 ? " (" + secondsText(s.front()) + " to " + secondsText(s.back()) + ")"
                        : ""));
}

llvm::Error run(const Options &o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (llvm::Error e = checkOptions(o.plan))
    return e;
  if (llvm::Error e = checkOutputsFolder(o.outputs)) // before the work, not after
    return e;
  auto device = openDevice(o.device, o.model.threads);
  if (!device)
    return device.takeError();
  auto g = loadModel(o.model);
  if (!g)
    return g.takeError();
  bool forwardOnly = !g->hasBackward() && o.model.loss.empty() && !g->loss && !o.plan.any();
  if (forwardOnly) {
    Console::get().note(
        "no loss is given (--loss) or named in the file: the forward part alone runs");
  } else {
    g = differentiated(std::move(*g), o.model);
    if (!g)
      return g.takeError();
  }
  auto plan = planned(*g, o.plan, (*device)->target());
  if (!plan)
    return plan.takeError();
  Report report = plan->report;
  auto executor = execute(*plan, **device, {o.steps, o.model.seed, o.model.inputs}, report);
  if (!executor)
    return executor.takeError();
  if (!o.outputs.empty()) {
    if (!(*device)->computes())
      return makeErrorCode(2, "--outputs needs a device that computes, and '{0}' only counts",
                           o.device);
    if (llvm::Error e = writeOutputs(plan->graph, **executor, o.outputs))
      return e;
  }
  if (llvm::Error e = writeReport(report, o.report))
    return e;
  summarize(report, (*device)->name());
  return llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanOptions(app, o->plan);
  app.add_option("--device", o->device,
                 "cpu, cuda, cuda:N, or counting, which only keeps the books")
      ->capture_default_str();
  app.add_option("--steps", o->steps, "how often to repeat the step, from the same state")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option(
      "--inputs", o->model.inputs,
      "a folder with NAME.npy for graph inputs and parameters; what is missing is drawn");
  app.add_option("--outputs", o->outputs, "a folder to write NAME.npy of every output to");
  app.add_option("--report", o->report, "a JSON file for the figures");
  return [o] { return run(*o); };
}

} // namespace

const Verb kRun = {
    "run", "executes a model's training step and measures its peak",
    "isthmus run resnet50.onnx --dim N=4 --loss=cross_entropy --policy=memory --steps=3", setUp};

} // namespace isthmus
