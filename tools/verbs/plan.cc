#include "ir/file.h"
#include "ir/json.h"
#include "passes/compile/within_budget.h"
#include "passes/inspect/joint_graph.h"
#include "tools/cli/budget.h"
#include "tools/cli/compiled.h"
#include "tools/cli/paths.h"
#include "tools/verbs/verbs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct Options {
  std::string problem, budget, output, curve, replay, report, progress = "auto";
  double effort = 0;
  uint64_t seed = 0;
};

bool writesSchedule(const Options &o) { return !o.output.empty() || o.report.empty(); }

llvm::Error writeSchedule(const JointGraph &g, const plan::Schedule &s, const std::string &path) {
  std::string text = printSchedule(g.name, s);
  return writeFileAtomically(path.empty() ? "-" : path, text);
}

// Each point of the curve takes this share of the effort.
constexpr double kCurveShare = 0.25;

// Plans for 95, 90, ... 5 % of the baseline, until one cannot be met; returns them with `found`, by
// budget.
std::vector<CurvePoint> curveAround(const plan::Problem &p, plan::SearchOptions options,
                                    const plan::PlanResult &found) {
  std::vector<int64_t> budgets;
  for (int share = 95; share > 0; share -= 5)
    budgets.push_back(int64_t(double(found.baseline.peakBytes) * share / 100));
  const int64_t asked = options.smallest ? found.arenaBytes : options.budgetBytes;
  options.smallest = false;
  options.effort = kCurveShare * plan::effortOf(options, p.ops.size());
  std::vector<CurvePoint> curve = planCurve(p, budgets, options);
  curve.push_back({asked, found});
  llvm::stable_sort(curve, [](const CurvePoint &a, const CurvePoint &b) {
    return a.budgetBytes > b.budgetBytes;
  });
  makeMonotone(p, curve);
  return curve;
}

llvm::Error writeCurve(const JointGraph &g, const std::vector<CurvePoint> &curve,
                       const std::string &path) {
  nlohmann::ordered_json j{{"schema", "isthmus.curve/1"}, {"graph", g.name}};
  j["baseline_peak_bytes"] = curve.front().plan.baseline.peakBytes;
  j["lower_bound_bytes"] = curve.front().plan.lowestPeak;
  j["points"] = nlohmann::ordered_json::array();
  for (const auto &[budget, plan] : curve)
    if (plan.isWithin)
      j["points"].push_back({{"budget_bytes", budget},
                             {"predicted_peak_bytes", plan.planned.peakBytes},
                             {"arena_bytes", plan.arenaBytes},
                             {"recompute_overhead", plan.overhead()},
                             {"clones", plan.planned.recomputed},
                             {"schedule", plan.schedule}});
  return writeFileAtomically(path, jsonText(j) + "\n");
}

llvm::Expected<plan::PlanResult> replay(const JointGraph &g, const std::string &path,
                                        const plan::SearchOptions &options) {
  auto text = readFile(path);
  if (!text)
    return text.takeError();
  auto s = parseSchedule((*text)->getBuffer(), path, g.name);
  if (!s)
    return s.takeError();
  plan::PlanResult r = replayed(g.problem, std::move(*s), options);
  if (const std::string &why = r.planned.error; !why.empty())
    return makeError("{0}: the schedule is not valid: {1}", path, why);
  return r;
}

llvm::Error runPlan(const Options &o) {
  ModelOptions console;
  console.progress = o.progress;
  if (llvm::Error e = checkOptions(console))
    return e;
  auto budget = budgetOption(o.budget);
  if (!budget)
    return budget.takeError();
  CommandPaths paths;
  paths.reads("PROBLEM", o.problem);
  paths.reads("--replay", o.replay);
  if (writesSchedule(o))
    paths.writes("-o", o.output.empty() ? "-" : o.output);
  paths.writes("--curve", o.curve);
  paths.writes("--report", o.report);
  if (llvm::Error e = paths.check())
    return e;
  auto text = readFile(o.problem);
  if (!text)
    return text.takeError();
  auto g = parseJointGraph((*text)->getBuffer(), o.problem);
  if (!g)
    return g.takeError();
  const plan::Problem &p = g->problem;
  plan::Evaluation baseline = plan::evaluate(p, plan::sourceOrder(p));
  if (!baseline.error.empty())
    return makeError("{0}: the order of the nodes is no schedule: {1}", o.problem, baseline.error);

  auto start = std::chrono::steady_clock::now();
  plan::SearchOptions options;
  options.budgetBytes = budget->of(baseline.peakBytes);
  options.effort = o.effort;
  options.seed = o.seed;
  WatchedSearch search;
  options.progress = search.progress();
  options.smallest = budget->kind == Budget::Smallest;
  plan::PlanResult found;
  if (o.replay.empty()) {
    found = planArena(p, options).plan;
  } else {
    auto old = replay(*g, o.replay, options);
    if (!old)
      return old.takeError();
    found = std::move(*old);
  }
  std::optional<plan::Knee> knee;
  if (!found.isWithin && o.replay.empty() && !search.wasInterrupted())
    knee = plan::findKnee(p, options, found);
  search.ended();
  if (!o.curve.empty() && !search.wasInterrupted()) {
    std::vector<CurvePoint> curve = curveAround(p, options, found);
    for (const CurvePoint &point : curve) // the curve may have a better plan for this budget
      if (point.budgetBytes == options.budgetBytes && point.plan.isWithin)
        found = point.plan;
    if (llvm::Error e = writeCurve(*g, curve, o.curve))
      return e;
  }
  Report r(figuresOf(p, found));
  r.knee = knee;
  r.planSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found.planned.error.empty())
    return internalError("the plan is not valid: {0}", found.planned.error);
  if (llvm::Error e = writeReport(r, o.report))
    return e;
  if (!found.isWithin)
    return search.wasInterrupted() ? interruptedBefore(r, options.budgetBytes)
                                   : budgetNotMet(r, options.budgetBytes);
  if (writesSchedule(o))
    if (llvm::Error e = writeSchedule(*g, found.schedule, o.output))
      return e;
  std::string atLeast, copies;
  if (r.lowerBoundOverhead)
    atLeast = llvm::formatv(" (at least {0:F2} %)", 100 * *r.lowerBoundOverhead);
  if (found.planned.transfers)
    copies = llvm::formatv(", {0} copies", found.planned.transfers);
  Console::get().line(
      llvm::formatv(
          "peak {0} -> {1}, arena {2}, {3} ops run again{4}, added cost {5:F2} %{6} in {7}",
          bytesText(r.baselinePeakBytes), bytesText(r.predictedPeakBytes), bytesText(r.arenaBytes),
          r.clones, copies, 100 * r.recomputeOverhead, atLeast, secondsText(r.planSeconds))
          .str());
  return search.wasInterrupted() ? interruptedError() : llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  app.add_option(
         "PROBLEM", o->problem,
         "a training graph as JSON, joint-graph/1 or joint-graph/2, or - for standard input")
      ->required();
  app.add_option("--budget", o->budget,
                 "the limit of the arena: 2GiB, 500MB, bytes, 50% of the baseline, or min")
      ->required();
  addEffortOption(app, o->effort);
  app.add_option("--seed", o->seed, "the seed of the search")
      ->capture_default_str()
      ->check(seedNumber());
  addPathOption(app, "-o,--output", o->output,
                "the schedule, as JSON; - for standard output, the default without --report");
  addPathOption(app, "--replay", o->replay,
                "a saved schedule, perhaps edited: judges and places it, in place of a search");
  addPathOption(app, "--curve", o->curve,
                "a JSON file for plans at 95, 90, ... 5 % of the baseline and at the budget, of "
                "which a larger one never costs more; this takes about four times as long");
  addPathOption(app, "--report", o->report, "a JSON file for the figures");
  app.add_option("--progress", o->progress, "auto, plain or none")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "plain", "none"}));
  return [o] { return runPlan(*o); };
}

} // namespace

const Verb kPlan = {"plan", "finds the fastest schedule of a training graph within a byte budget",
                    "isthmus plan resnet50.json --budget=50% -o schedule.json", setUp};

} // namespace isthmus
