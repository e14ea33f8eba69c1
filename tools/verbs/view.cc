#include "ir/file.h"
#include "passes/compile/figures_json.h"
#include "passes/inspect/same_place.h"
#include "tools/cli/exit.h"
#include "tools/cli/explanation.h"
#include "tools/cli/model.h"
#include "tools/cli/step.h"
#include "tools/cli/unused_dims.h"
#include "tools/verbs/verbs.h"
#include "tools/view/page.h"
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

// The figures without the time that the search took, so that the same plan gives the same page.
Json figures(Figures f) {
  Json j = figuresJson(f);
  j.erase("plan_seconds");
  return j;
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

llvm::Error addStepOf(Page &page, const std::string &prefix, const std::string &name,
                      const Graph &g, const Layout *layout, const Target &target) {
  auto timeline = timelineOf(g, layout, target);
  if (!timeline)
    return timeline.takeError();
  Json step = addStep(page.columns, prefix, g, std::move(*timeline),
                      layout ? Detail::Whole : Detail::Profile);
  step["name"] = name;
  step["prefix"] = prefix;
  page.facts["steps"].push_back(std::move(step));
  return llvm::Error::success();
}

llvm::Error addBeside(Page &page, const Graph &g, const Beside &b, const Target &target) {
  const std::vector<SamePlace> same = samePlaces(g, b.graph);
  page.columns.delta("same.a", same.size(), [&](size_t i) { return same[i].a; });
  page.columns.delta("same.b", same.size(), [&](size_t i) { return same[i].b; });
  if (llvm::Error e =
          addStepOf(page, "b.", b.name, b.graph, b.layout ? &*b.layout : nullptr, target))
    return e;
  page.facts["steps"].back()["figures"] = b.layout ? figures(b.figures) : Json();
  return llvm::Error::success();
}

Json kinds() {
  Json all = Json::array();
  for (size_t k = 0; k < kNumLiveKinds; ++k)
    all.push_back(liveKindText(LiveKind(k)).str());
  return all;
}

Json standIns() {
  Json all = Json::array();
  for (size_t k = 0; k < kNumStandIns; ++k)
    all.push_back(standInName(StandIn(k)).str());
  return all;
}

llvm::Error view(Options o) {
  if (!o.other.empty())
    o.model.unusedDims = std::make_shared<UnusedDims>();
  if (llvm::Error e = checkOutput(o.output))
    return e;
  CommandPaths paths;
  paths.reads("OTHER", o.other);
  paths.writes("-o", o.output.empty() ? "-" : o.output);
  auto step = stepToCompile(o.model, o.plan, o.device, paths, ForwardAlone::Allowed,
                            o.other.empty() ? LossOfStep::Refused : LossOfStep::Ignored);
  if (!step)
    return step.takeError();
  auto &[device, g, compile, given] = *step;
  const Target &target = device->target();
  const bool wasDifferentiated = g.hasBackward();
  auto c = compiled(std::move(g), compile, target);
  if (!c)
    return c.takeError();
  if (llvm::Error e = checkOneDevice(*c, "view"))
    return e;

  std::optional<Beside> beside;
  if (!o.other.empty()) {
    auto other = otherModel(o, c->graph, wasDifferentiated, target, paths, given);
    if (!other)
      return other.takeError();
    beside = std::move(*other);
  } else if (c->graph.isRewritten()) {
    beside = Beside{"without a plan", c->original, std::nullopt, {}};
  }

  Page page;
  page.title = o.model.model == "-" ? c->graph.name : o.model.model;
  page.facts["schema"] = "isthmus.view/1";
  page.facts["model"] = o.model.model;
  page.facts["graph"] = c->graph.name;
  page.facts["target"] = target.name;
  page.facts["budget_bytes"] = c->budgetBytes ? Json(*c->budgetBytes) : Json();
  page.facts["figures"] = figures(c->figures);
  page.facts["kinds"] = kinds();
  page.facts["stand_ins"] = standIns();
  page.facts["steps"] = Json::array();
  if (llvm::Error e = addStepOf(page, "a.", page.title, c->graph, &c->layout, target))
    return e;
  if (beside)
    if (llvm::Error e = addBeside(page, c->graph, *beside, target))
      return e;
  if (c->graph.hasBackward())
    if (llvm::Error e = addDecisions(page, o, compile.plan, *c, target))
      return e;
  if (llvm::Error e = writeFileAtomically(o.output.empty() ? "-" : o.output, pageText(page)))
    return e;
  return c->wasInterrupted ? interruptedError() : llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  addPlanFlags(app, o->plan);
  addPathOption(app, "OTHER", o->other,
                "another model, as it is, to compare with; default: MODEL without a plan");
  app.add_option("--device", o->device, "the device that sizes and workspaces are meant for")
      ->capture_default_str();
  addPathOption(app, "-o,--output", o->output,
                "PAGE.html; default: standard output, unless that is a terminal");
  return [o] { return view(*o); };
}

} // namespace

const Verb kViewVerb = {"view", "writes a page that shows a step: live bytes, arena and graph",
                        "isthmus view unet.isth --loss=cross_entropy --budget=60% -o unet.html\n"
                        "  isthmus view small.isth unet.isth --loss=cross_entropy -o both.html",
                        setUp};

} // namespace isthmus
