#include "ir/file.h"
#include "passes/compile/within_budget.h"
#include "tools/cli/exit.h"
#include "tools/cli/explanation.h"
#include "tools/cli/model.h"
#include "tools/cli/stage_flags.h"
#include "tools/cli/step.h"
#include "tools/cli/unused_dims.h"
#include "tools/verbs/verbs.h"
#include "tools/view/curve.h"
#include "tools/view/snapshot.h"
#include "tools/view/snapshot_page.h"
#include "tools/view/stages_page.h"
#include "llvm/Support/Process.h"

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ModelOptions model;
  PlanFlags plan;
  std::string other, device = "cpu", output;
};

// A page is no text to read.
llvm::Error checkOutput(const std::string &path) {
  if (path.empty() && llvm::sys::Process::StandardOutIsDisplayed())
    return usageError("the page would go to a terminal: give it a file with -o PAGE.html");
  if (path.empty() || path == "-" || llvm::StringRef(path).endswith(".html"))
    return llvm::Error::success();
  return usageError("a page is written to a file whose name ends in .html, got '{0}'", path);
}

// The number of tensors whose decision is told. Each takes time in proportion to the graph.
size_t numTold(const Graph &g) {
  constexpr size_t kMost = 300, kWork = 4'000'000;
  return std::min(kMost, kWork / (g.numNodes() + 1) + 20);
}

// The tensors that the plan decides on, the largest first, and the reasons.
llvm::Error addDecisions(Page &page, const Options &o, const PlanChoice &plan, const Compiled &c,
                         const Target &target) {
  ExplainOptions options;
  if (const auto *policy = std::get_if<PolicyOptions>(&plan))
    options.policy = policy->policy;
  options.policyUsed = c.figures.policyUsed;
  options.checkpoints = c.checkpoints;
  options.top = numTold(c.graph);
  auto why = explain(c.graph, c.original, target, options);
  if (!why)
    return why.takeError();
  const ExplainedPlan e{c, *why, options, o.model.model, target.name};
  page.facts["us_per_mib"] = e.usPerMiB() ? Json(*e.usPerMiB()) : Json();
  page.facts["baseline_us"] = why->baselineUs;
  page.facts["planned_us"] = why->plannedUs;
  page.facts["decisions"] = Json::array();
  for (const TensorDecision &f : why->tensors) {
    Json j;
    j["value"] = f.value.index;
    j["kept"] = f.kind == TensorDecision::Kind::Kept;
    j["bytes"] = f.bytes;
    j["saved_bytes"] = f.away.empty() ? 0 : f.bytes - f.encodedBytes;
    j["us"] = f.addedUs + f.rebuildUs;
    j["link_us"] = f.linkUs;
    if (f.eviction)
      j["eviction"] = {{"us", f.eviction->us}, {"peak_bytes", f.eviction->peakBytes}};
    j["text"] = decisionText(e, f);
    j["why"] = whyText(e, f);
    page.facts["decisions"].push_back(std::move(j));
  }
  page.facts["never_whole"] = Json::array();
  for (const ChunkedValue &v : why->chunked)
    page.facts["never_whole"].push_back({{"value", v.value.index},
                                         {"bytes", c.graph.type(v.value).bytes()},
                                         {"chunks", v.chunks},
                                         {"most_bytes", v.mostBytes}});
  return llvm::Error::success();
}

// The step that is drawn beside that of MODEL: of OTHER, or of the graph without a plan.
struct Beside {
  std::string name;
  Graph graph;
  std::optional<Layout> layout; // none: only its live bytes are drawn
  Figures figures;
};

llvm::Expected<Beside> otherModel(const Options &o, const Graph &shown, bool wasDifferentiated,
                                  const Target &target, CommandPaths &paths,
                                  const GivenInputs &given) {
  ModelOptions model = o.model;
  model.model = o.other;
  auto g = loadModel(model, paths, given);
  if (!g)
    return g.takeError();
  if (llvm::Error e = model.unusedDims->check())
    return e;
  auto options = compileOptions(model, {}, given);
  if (!options)
    return options.takeError();
  if (wasDifferentiated && g->hasBackward() && (!model.loss.empty() || !model.wrt.empty()))
    return usageError(
        "both graphs are differentiated already, so --loss and --wrt have no meaning here");
  if (runsForwardAlone(model, {}, *g, options->step))
    options->differentiates = false;
  if (shown.wasPlanned() && !g->wasPlanned()) { // lowered alike, to be comparable
    options->lowering = loweringOf(shown.record);
    options->exactOnly = false;
  }
  auto c = compiled(std::move(*g), *options, target);
  if (!c)
    return c.takeError();
  if (llvm::Error e = checkOneDevice(*c, "view"))
    return e;
  return Beside{o.other, std::move(c->graph), std::move(c->layout), std::move(c->figures)};
}

// Plans for budgets between the peak without a plan and the least that is known, so that the curve
// of budgets can be read. Only of graphs for which a plan is searched anyway, and which are so
// small that little work finds good plans.
llvm::Expected<std::vector<plan::PricePoint>>
otherBudgets(const Compiled &c, const CompileOptions &o, const Target &target) {
  constexpr size_t kMostNodes = 3000;
  constexpr double kShare = 0.05; // of the effort, for each budget
  if (!o.searches() || c.wasInterrupted || c.original.numNodes() > kMostNodes)
    return std::vector<plan::PricePoint>();
  auto p = extractProblem(c.original, target, o.ways);
  if (!p)
    return p.takeError();
  std::vector<int64_t> budgets;
  for (int tenths = 9; tenths > 0; --tenths)
    if (const int64_t b = c.figures.baselinePeakBytes / 10 * tenths; b > *c.figures.lowerBoundBytes)
      budgets.push_back(b);
  plan::SearchOptions options;
  options.mostAdded = o.mostAdded.value_or(options.mostAdded);
  options.seed = o.seed;
  options.effort = o.effort;
  options.effort = kShare * plan::effortOf(options, p->problem.ops.size());
  std::vector<plan::PricePoint> found;
  for (const CurvePoint &point : planCurve(p->problem, budgets, options))
    if (point.plan.isWithin)
      found.push_back({point.plan.planned.peakBytes, point.plan.planned.cost});
  return found;
}

llvm::Error addStepOf(Page &page, const std::string &name, const Graph &g, const Layout *layout,
                      const Figures *figures, const Target &target) {
  auto step = stepTableOf(g, layout, target);
  if (!step)
    return step.takeError();
  page.add(name, std::move(*step), layout ? Detail::Whole : Detail::Profile, figures);
  return llvm::Error::success();
}

llvm::Error addBeside(Page &page, const Graph &g, const Beside &b, const Target &target) {
  page.add(samePlaces(g, b.graph));
  const Layout *layout = b.layout ? &*b.layout : nullptr;
  return addStepOf(page, b.name, b.graph, layout, layout ? &b.figures : nullptr, target);
}

llvm::Error addSnapshotOf(Page &page, const std::string &path) {
  auto file = readFile(path);
  if (!file)
    return file.takeError();
  return addSnapshot(page, path, (*file)->getBuffer());
}

llvm::Error write(const Options &o, const Page &page) {
  return writeFileAtomically(o.output.empty() ? "-" : o.output, pageText(page));
}

// One snapshot, or two.
llvm::Error viewSnapshots(const Options &o) {
  if (o.plan.any() || !o.model.loss.empty())
    return usageError("plan options are for a model, and '{0}' is a snapshot: give the model too",
                      o.model.model);
  CommandPaths paths;
  paths.reads("MODEL", o.model.model);
  paths.reads("OTHER", o.other);
  paths.writes("-o", o.output.empty() ? "-" : o.output);
  if (llvm::Error e = paths.check())
    return e;
  Page page(o.model.model, o.model.model, "", "");
  for (const std::string &path : {o.model.model, o.other})
    if (!path.empty())
      if (llvm::Error e = addSnapshotOf(page, path))
        return e;
  return write(o, page);
}

// A step over several devices.
llvm::Error viewStages(const Options &o, const Compiled &c, const CompileOptions &compile,
                       const Target &target) {
  if (!o.other.empty())
    return usageError("a step over {0} devices is shown alone: leave out '{1}'", c.programs.size(),
                      o.other);
  const std::string name = o.model.model == "-" ? c.graph.name : o.model.model;
  Page page(name, o.model.model, c.graph.name, target.name);
  page.facts["budget_bytes"] = c.budgetBytes ? Json(*c.budgetBytes) : Json();
  if (llvm::Error e = addPlaces(page, stepByPlace(c, compile, target), c.figures, target))
    return e;
  if (llvm::Error e = write(o, page))
    return e;
  return c.wasInterrupted ? interruptedError() : llvm::Error::success();
}

// `snapshotFirst`: OTHER is a snapshot, and is what the page is about.
llvm::Error viewModel(Options o, bool snapshotFirst) {
  CommandPaths paths;
  paths.reads("OTHER", o.other);
  paths.writes("-o", o.output.empty() ? "-" : o.output);
  const bool isBesideSnapshot = isSnapshotName(o.other);
  if (!o.other.empty() && !isBesideSnapshot)
    o.model.unusedDims = std::make_shared<UnusedDims>();
  auto step = stepToCompile(o.model, o.plan, o.device, paths, ForwardAlone::Allowed,
                            o.other.empty() || isBesideSnapshot ? LossOfStep::Refused
                                                                : LossOfStep::Ignored);
  if (!step)
    return step.takeError();
  auto &[device, g, compile, given] = *step;
  compile.findsKnee = true;
  const Target &target = device->target();
  const bool wasDifferentiated = g.hasBackward();
  auto c = compiled(std::move(g), compile, target);
  if (!c)
    return c.takeError();
  if (!c->programs.empty())
    return viewStages(o, *c, compile, target);

  std::optional<Beside> beside;
  if (!o.other.empty() && !isBesideSnapshot) {
    auto other = otherModel(o, c->graph, wasDifferentiated, target, paths, given);
    if (!other)
      return other.takeError();
    beside = std::move(*other);
  } else if (!isBesideSnapshot && c->graph.isRewritten()) {
    beside = Beside{"without a plan", c->original, std::nullopt, {}};
  }

  const std::string name = o.model.model == "-" ? c->graph.name : o.model.model;
  const std::string about = snapshotFirst ? o.other : o.model.model;
  Page page(snapshotFirst ? o.other : name, about, c->graph.name, target.name);
  page.facts["budget_bytes"] = c->budgetBytes ? Json(*c->budgetBytes) : Json();
  if (snapshotFirst)
    if (llvm::Error e = addSnapshotOf(page, o.other))
      return e;
  if (llvm::Error e = addStepOf(page, name, c->graph, &c->layout, &c->figures, target))
    return e;
  if (beside)
    if (llvm::Error e = addBeside(page, c->graph, *beside, target))
      return e;
  if (isBesideSnapshot && !snapshotFirst)
    if (llvm::Error e = addSnapshotOf(page, o.other))
      return e;
  if (c->graph.hasBackward() && !snapshotFirst) {
    auto others = otherBudgets(*c, compile, target);
    if (!others)
      return others.takeError();
    addCurve(page, c->figures, std::move(*others));
    if (c->budgetBytes && o.model.model != "-")
      page.facts["sweeps"] =
          llvm::formatv("isthmus sweep {0} --fit={1} --batch", o.model.model, *c->budgetBytes)
              .str();
    if (llvm::Error e = addDecisions(page, o, compile.plan, *c, target))
      return e;
  }
  if (llvm::Error e = write(o, page))
    return e;
  return c->wasInterrupted ? interruptedError() : llvm::Error::success();
}

llvm::Error view(Options o) {
  if (llvm::Error e = checkOutput(o.output))
    return e;
  if (!isSnapshotName(o.model.model))
    return viewModel(o, /*snapshotFirst=*/false);
  if (o.other.empty() || isSnapshotName(o.other))
    return viewSnapshots(o);
  std::swap(o.model.model, o.other);
  return viewModel(o, /*snapshotFirst=*/true);
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanFlags(app, o->plan);
  addMachineFlag(app, o->plan);
  addPathOption(app, "OTHER", o->other,
                "another model, as it is, to compare with, or a snapshot of PyTorch's allocator "
                "(.pickle); default: MODEL without a plan");
  app.add_option("--device", o->device, "the device that sizes and workspaces are meant for")
      ->capture_default_str();
  addPathOption(app, "-o,--output", o->output,
                "PAGE.html; default: standard output, unless that is a terminal");
  return [o] { return view(*o); };
}

} // namespace

const Verb kViewVerb = {"view", "writes a page that shows a step: live bytes, arena and graph",
                        "isthmus view unet.isth --loss=cross_entropy --budget=60% -o unet.html\n"
                        "  isthmus view small.isth unet.isth --loss=cross_entropy -o both.html\n"
                        "  isthmus view snapshot.pickle -o snapshot.html",
                        setUp};

} // namespace isthmus
