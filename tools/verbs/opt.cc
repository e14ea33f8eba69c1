#include "ir/file.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "tools/cli/output.h"
#include "tools/cli/stage_flags.h"
#include "tools/cli/stages_text.h"
#include "tools/cli/step.h"
#include "tools/verbs/verbs.h"
#include "tools/view/stages_svg.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  PlanFlags plan;
  std::string device = "cpu", output, weights, dot, timeline, report;
  std::vector<std::string> printAfter; // names of steps
};

llvm::Error checkTimelinePath(llvm::StringRef path) {
  if (path.empty() || path == "-" || path.endswith(".svg"))
    return llvm::Error::success();
  return usageError("--timeline is written to a file whose name ends in .svg, got '{0}'", path);
}

llvm::Error writeTimeline(const Compiled &c, const CompileOptions &o, const Target &target,
                          const std::string &path) {
  auto svg = scheduleSvg(stepByPlace(c, o, target), c.figures, target);
  if (!svg)
    return svg.takeError();
  return writeFileAtomically(path, *svg);
}

// Prints the graphs of these steps as they are made, each as a text of its own. The first that
// cannot be printed is kept in `failed`.
AfterStep printer(llvm::ArrayRef<std::string> steps, llvm::Error &failed) {
  if (steps.empty())
    return {};
  return
      [steps, &failed, seen = std::set<CompileStep>()](CompileStep step, const Graph &g) mutable {
        const llvm::StringRef name = compileStepName(step);
        if (failed || !llvm::is_contained(steps, name) || !seen.insert(step).second)
          return;
        failed = writeFileAtomically("-", "// after " + name.str() + "\n");
        if (!failed)
          failed = writeGraph(g, "-", "");
      };
}

llvm::Error opt(const Options &o) {
  if (llvm::Error e = checkGraphPath(o.output, o.weights))
    return e;
  if (llvm::Error e = checkPicturePath(o.dot))
    return e;
  if (llvm::Error e = checkTimelinePath(o.timeline))
    return e;
  const bool draws = !o.dot.empty() || !o.timeline.empty();
  const bool writesGraph =
      !o.output.empty() || (!draws && o.report.empty() && o.printAfter.empty());
  CommandPaths paths;
  if (writesGraph)
    addGraphPaths(paths, o.output, o.weights);
  paths.writes("--dot", o.dot);
  paths.writes("--timeline", o.timeline);
  paths.writes("--report", o.report);
  auto step = stepToCompile(o.model, o.plan, o.device, paths);
  if (!step)
    return step.takeError();
  auto &[device, g, options, given] = *step;
  if (!o.plan.any() && o.plan.machine.empty())
    options.plan = PolicyOptions(); // a rewritten graph is planned anew, not kept
  if (!writesGraph && !draws && o.printAfter.empty())
    options.mostNodes = kMostNodesOfFigures;
  llvm::Error notPrinted = llvm::Error::success();
  options.after = printer(o.printAfter, notPrinted);
  auto c = compiled(std::move(g), options, device->target(), o.report);
  if (!c)
    return llvm::joinErrors(std::move(notPrinted), c.takeError());
  if (notPrinted)
    return notPrinted;
  if (llvm::Error e = checkNames(given, c->original))
    return e;
  if (writesGraph && !given.empty())
    Console::get().note(
        "the values of --inputs are not written into the graph, which `isthmus run` "
        "takes with --inputs again; --load writes parameters");
  if (!o.dot.empty())
    if (llvm::Error e = writePicture(c->graph, c->checkpoints, o.dot))
      return e;
  if (!o.timeline.empty())
    if (llvm::Error e = writeTimeline(*c, options, device->target(), o.timeline))
      return e;
  if (llvm::Error e = writeReport(Report(c->figures), o.report))
    return e;
  if (writesGraph)
    if (llvm::Error e = writeGraph(c->graph, o.output, o.weights))
      return e;
  const Figures &r = c->figures;
  std::string others;
  if (r.transfers)
    others =
        llvm::formatv(", {0} transfers ({1} on the host)", r.transfers, bytesText(r.hostBytes));
  if (r.inversions)
    others += llvm::formatv(", {0} inverses", r.inversions);
  if (r.chunks)
    others += llvm::formatv(", {0} nodes in chunks", r.chunks);
  if (r.encodings)
    others += llvm::formatv(", {0} encodings", r.encodings);
  Console::get().line(
      llvm::formatv("peak {0} -> {1}, arena {2}, {3} clones{4}, added cost {5:F1} % (policy {6})",
                    bytesText(r.baselinePeakBytes), bytesText(r.predictedPeakBytes),
                    bytesText(r.arenaBytes), r.clones, others, 100 * r.recomputeOverhead,
                    plannedByText(r.policyUsed))
          .str());
  if (!r.stages.empty())
    Console::get().line(llvm::StringRef(stagesText(Report(r))).rtrim().str());
  return c->wasInterrupted ? interruptedError() : llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanFlags(app, o->plan);
  addMachineFlag(app, o->plan);
  app.add_option("--device", o->device, "the device that sizes and workspaces are meant for")
      ->capture_default_str();
  addPathOption(app, "-o,--output", o->output,
                "the rewritten graph, OUT.isth or OUT.onnx; - for standard output");
  addPathOption(app, "--weights", o->weights,
                "a .safetensors file for large weights; default: beside OUT.isth");
  addPathOption(app, "--dot", o->dot, "a picture of the rewritten graph, .dot or .svg");
  addPathOption(app, "--timeline", o->timeline,
                "a picture of what each device does and holds over the time, .svg");
  addPathOption(app, "--report", o->report, "a JSON file for the figures");
  app.add_option(
         "--print-after", o->printAfter,
         "prints the graph after these steps, separated by commas: convert, to the precision "
         "and mode that were asked for; differentiate; lower, to forms that the device has; "
         "chunk, if chunks or micro-batches were asked for; rewrite, with the plan. The "
         "result is written only with -o then")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(
          std::vector<std::string>(compileStepNames().begin(), compileStepNames().end())));
  return [o] { return opt(*o); };
}

} // namespace

const Verb kOpt = {"opt", "rewrites a model's training step so that it needs less memory",
                   "isthmus opt unet.onnx --dim N=2 --loss=cross_entropy --policy=memory -o "
                   "unet.isth --dot=unet.svg",
                   setUp};

} // namespace isthmus
