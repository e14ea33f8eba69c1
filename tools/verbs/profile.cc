#include "ir/file.h"
#include "ir/measured_costs.h"
#include "tools/cli/execute.h"
#include "tools/cli/exit.h"
#include "tools/cli/profile_report.h"
#include "tools/cli/step.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  PlanFlags plan;
  std::string device = "cpu", costs, trace;
  int steps = 5;
  size_t top = 10;
};

llvm::Expected<std::vector<NodeProfile>> measure(const Options &o, const Compiled &c,
                                                 Device &device, const GivenInputs &given) {
  auto session = fedSession(c, device, {o.steps, o.model.seed, given});
  if (!session)
    return session.takeError();
  ProgressBar bar("measuring", c.graph.numNodes() * size_t(o.steps + 1));
  auto nodes =
      profileNodes(c.graph, (*session)->executor(), device,
                   {.steps = o.steps, .random = {o.model.seed, 0}, .progress = [&](size_t done) {
                      bar.at(done);
                    }});
  for (const std::string &note : device.takeNotes())
    Console::get().note(note);
  return nodes;
}

llvm::Error profile(const Options &o) {
  CommandPaths paths;
  paths.writes("-o", o.costs);
  paths.writes("--trace", o.trace);
  auto step = stepToCompile(o.model, o.plan, o.device, paths, ForwardAlone::Allowed);
  if (!step)
    return step.takeError();
  auto &[device, g, compile, given] = *step;
  if (!device->computes())
    return usageError("profile needs a device that computes, and '{0}' only counts", o.device);
  compile.keepsBudget = true;
  auto c = compiled(std::move(g), compile, device->target());
  if (!c)
    return c.takeError();
  if (c->wasInterrupted)
    return interruptedError();
  if (llvm::Error e = checkOneDevice(*c, "profile"))
    return e;
  auto nodes = measure(o, *c, *device, given);
  if (!nodes)
    return nodes.takeError();

  const Target &target = device->target();
  const ProfiledStep measured{c->graph, *nodes, target, o.model.model, o.steps, o.top};
  if (!o.costs.empty())
    if (llvm::Error e =
            writeFileAtomically(o.costs, costsText(measuredCosts(c->graph, *nodes, target))))
      return e;
  if (!o.trace.empty())
    if (llvm::Error e = writeFileAtomically(o.trace, traceText(measured)))
      return e;
  if (o.costs != "-" && o.trace != "-")
    llvm::outs() << profileText(measured);
  return llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanFlags(app, o->plan);
  app.add_option("--device", o->device, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--steps", o->steps, "how many steps are measured, after one that warms up")
      ->capture_default_str()
      ->check(positiveInteger());
  app.add_option("--top", o->top, "how many ops and nodes to show, the slowest first")
      ->capture_default_str()
      ->check(nonNegativeInteger());
  addPathOption(app, "-o,--output", o->costs,
                "the measured times, a JSON file for --costs; - for standard output");
  addPathOption(app, "--trace", o->trace,
                "the step as a trace, a JSON file that Perfetto and chrome://tracing show");
  return [o] { return profile(*o); };
}

} // namespace

const Verb kProfile = {
    "profile", "measures the time of each node of a step, for people and for plans",
    "isthmus profile resnet50.onnx --dim N=4 --loss=cross_entropy -o costs.json\n"
    "isthmus opt resnet50.onnx --dim N=4 --loss=cross_entropy --budget=50% --costs=costs.json "
    "-o fast.isth",
    setUp};

} // namespace isthmus
