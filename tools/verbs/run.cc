#include "ir/onnx/import.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/execute.h"
#include "tools/cli/exit.h"
#include "tools/cli/feeds.h"
#include "tools/cli/first_step.h"
#include "tools/cli/model.h"
#include "tools/cli/processes.h"
#include "tools/cli/stages_text.h"
#include "tools/cli/step.h"
#include "tools/cli/test_data.h"
#include "tools/verbs/verbs.h"
#include <algorithm>

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  PlanFlags plan;
  std::string device = "cpu", outputs, testData, report;
  Tolerance tolerance;
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
  if (r.transfers)
    row("on the host",
        llvm::formatv("{0}, {1} transfers", bytesText(r.hostBytes), r.transfers).str());
  if (r.inversions)
    row("inverses", inversesText(r));
  row("added cost", llvm::formatv("{0:F1} %", 100 * r.recomputeOverhead).str());
  std::vector<double> s = r.stepSeconds;
  std::sort(s.begin(), s.end());
  row("step time",
      secondsText(s[s.size() / 2]) +
          (s.size() > 1 ? " (" + secondsText(s.front()) + " to " + secondsText(s.back()) + ")"
                        : ""));
  if (!r.stages.empty())
    c.line(llvm::StringRef(stagesText(r)).rtrim().str());
}

CommandPaths pathsOf(const Options &o, const GivenInputs &given) {
  CommandPaths paths;
  paths.reads("MODEL", o.model.model);
  paths.reads("--costs", o.plan.costs);
  for (const auto &[name, each] : given)
    paths.reads(o.testData.empty() ? "--inputs" : "--test-data", each.from);
  paths.writesFolder("--outputs", o.outputs);
  paths.writes("--report", o.report);
  return paths;
}

// One run: on a test set, whose outputs are then checked, or, if that is null, on the inputs of
// --inputs and the seed.
llvm::Error runOnce(const Options &o, Device &device, const GivenInputs &given,
                    const TestSet *test) {
  CommandPaths paths = pathsOf(o, given);
  if (llvm::Error e = paths.check())
    return e;
  auto g = loadModel(o.model, paths, given);
  if (!g)
    return g.takeError();
  auto options = compileOptions(o.model, o.plan, given);
  if (!options)
    return options.takeError();
  divideAmongProcesses(*g, *options);
  options->step.keepsOutputs |= !o.outputs.empty();
  options->differentiates = !test && !runsForwardAlone(o.model, o.plan, *g, options->step);
  if (options->differentiates)
    if (llvm::Error e = checkDifferentiates(*g, o.model))
      return e;
  options->firstStep = firstStepOn(device, given, o.model.seed);
  options->keepsBudget = true;
  auto c = compiled(std::move(*g), *options, device.target(), o.report);
  if (!c)
    return c.takeError();
  if (c->wasInterrupted)
    return interruptedError();
  if (!o.outputs.empty())
    for (const std::string &file : outputFiles(c->graph, o.outputs))
      paths.writes("--outputs", file);
  if (llvm::Error e = paths.check())
    return e;
  Report report(c->figures);
  auto session = execute(*c, device, {o.steps, o.model.seed, given}, report);
  if (!session)
    return session.takeError();
  if (!o.outputs.empty())
    if (llvm::Error e = writeOutputs(c->graph, **session, o.outputs))
      return e;
  if (llvm::Error e = writeReport(report, o.report))
    return e;
  if (test)
    return checkOutputs(*test, c->graph, **session, o.tolerance);
  summarize(report, device.name());
  return llvm::Error::success();
}

llvm::Error runTests(const Options &o, Device &device) {
  auto sets = readTestData(o.testData);
  if (!sets)
    return sets.takeError();
  std::vector<std::string> names; // of the model's inputs, for sets without names
  auto hasNames = [](const TestSet &set) {
    return llvm::none_of(set.inputs, [](const NamedTensor &t) { return t.name.empty(); });
  };
  if (llvm::StringRef(o.model.model).endswith(".onnx") && !llvm::all_of(*sets, hasNames)) {
    auto inputs = onnxInputNames(o.model.model);
    if (!inputs)
      return inputs.takeError();
    names = *inputs;
  }
  size_t outputs = 0;
  llvm::Error failed = llvm::Error::success();
  for (const TestSet &set : *sets) {
    failed = llvm::joinErrors(std::move(failed), runOnce(o, device, givenBy(set, names), &set));
    outputs += set.outputs.size();
  }
  if (failed)
    return failed;
  Console::get().line(llvm::formatv("{0} outputs are as expected", outputs).str());
  return llvm::Error::success();
}

llvm::Error checkTogether(const Options &o, const Device &device) {
  if (!o.testData.empty() &&
      !(o.model.inputs.empty() && o.model.loss.empty() && o.model.wrt.empty() && !o.model.eval))
    return usageError("--test-data has inputs of its own and is a forward run as written, so "
                      "--inputs, --loss, --wrt and --eval have no meaning beside it");
  for (const auto &[option, value] :
       {std::pair("--outputs", &o.outputs), {"--test-data", &o.testData}})
    if (!value->empty() && !device.computes())
      return usageError("{0} needs a device that computes, and '{1}' only counts", option,
                        o.device);
  return llvm::Error::success();
}

llvm::Error run(Options o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (llvm::Error e = checkOptions(o.plan))
    return e;
  if (llvm::Error e = checkOutputsFolder(o.outputs)) // fail before the work
    return e;
  auto device = openDevice(o.device, deviceOptions(o.model, o.plan));
  if (!device)
    return device.takeError();
  if (llvm::Error e = checkTogether(o, **device))
    return e;
  if (!o.testData.empty()) {
    o.model.asWritten = true;
    return runTests(o, **device);
  }
  auto given = readInputs(o.model.inputs);
  if (!given)
    return given.takeError();
  return runOnce(o, **device, *given, nullptr);
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanFlags(app, o->plan);
  app.add_option("--device", o->device,
                 "cpu, cuda, cuda:N, or counting, which computes nothing and only counts bytes")
      ->capture_default_str();
  app.add_option("--steps", o->steps, "how often to repeat the step, from the same state")
      ->capture_default_str()
      ->check(positiveInteger());
  addPathOption(app, "--outputs", o->outputs,
                "a folder to write NAME.npy of every output to, the model's own included; implies "
                "--keep-outputs");
  addPathOption(
      app, "--test-data", o->testData,
      "a folder with test_data_set_N/input_K.pb and output_K.pb, in the form of the ONNX project's "
      "tests: the model runs forward as written, and its outputs are compared with the files");
  app.add_option("--rtol", o->tolerance.relative,
                 "for --test-data: the relative error that is allowed")
      ->capture_default_str();
  app.add_option("--atol", o->tolerance.absolute,
                 "for --test-data: the absolute error that is allowed")
      ->capture_default_str();
  addPathOption(app, "--report", o->report, "a JSON file for the figures");
  return [o] { return run(*o); };
}

} // namespace

const Verb kRun = {
    "run",
    "executes a model and measures its peak: the training step of a loss, else the forward part as "
    "it is written",
    "isthmus run resnet50.onnx --dim N=4 --loss=cross_entropy --policy=memory --steps=3", setUp};

} // namespace isthmus
