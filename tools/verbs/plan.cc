#include "ir/file.h"
#include "passes/budget.h"
#include "passes/joint_graph.h"
#include "tools/cli/budget.h"
#include "tools/cli/planned.h"
#include "tools/verbs/verbs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct Options {
  std::string problem, budget, output, report, progress = "auto";
  double effort = 0;
  uint64_t seed = 0;
};

int64_t persistentOf(const plan::Problem &p) {
  int64_t bytes = 0;
  for (const plan::Op &op : p.ops)
    for (int64_t b : op.outputBytes)
      bytes += op.persistent ? p.rounded(b) : 0;
  return bytes;
}

Report reportOf(const plan::Problem &p, const plan::PlanResult &found) {
  Report r;
  r.baselinePeakBytes = found.baseline.peakBytes;
  r.predictedPeakBytes = found.planned.peakBytes;
  r.arenaBytes = found.arenaBytes;
  r.persistentBytes = persistentOf(p);
  r.outputBytes = found.planned.outputBytes;
  r.recomputeOverhead = found.planned.cost / std::max(1e-12, found.baseline.cost) - 1;
  r.lowerBoundBytes = found.lowestPeak;
  if (found.smallestBytes > 0)
    r.smallestBudgetBytes = found.smallestBytes;
  r.policyUsed = "budget";
  r.nodes = llvm::count_if(p.ops, [](const plan::Op &op) { return !op.persistent; });
  r.clones = found.planned.recomputed;
  return r;
}

llvm::Error writeSchedule(const JointGraph &g, const plan::Schedule &s, const std::string &path) {
  std::string text = printSchedule(g.name, s);
  if (!path.empty() && path != "-")
    return writeFileAtomically(path, text);
  llvm::outs() << text;
  return llvm::Error::success();
}

llvm::Error runPlan(const Options &o) {
  ModelOptions console;
  console.progress = o.progress;
  if (llvm::Error e = checkOptions(console))
    return e;
  auto budget = parseBudget(o.budget);
  if (!budget)
    return budget.takeError();
  auto text = llvm::MemoryBuffer::getFileOrSTDIN(o.problem);
  if (!text)
    return makeError("cannot read '{0}': {1}", o.problem, text.getError().message());
  auto g = parseJointGraph((*text)->getBuffer(), o.problem);
  if (!g)
    return g.takeError();
  const plan::Problem &p = g->problem;
  plan::Evaluation baseline = plan::evaluate(p, plan::sourceOrder(p));
  if (!baseline.error.empty())
    return makeError("{0}: the order of the nodes is no schedule: {1}", o.problem, baseline.error);

  auto start = std::chrono::steady_clock::now();
  plan::PlanOptions options;
  options.budgetBytes = budget->of(baseline.peakBytes);
  options.effort = o.effort;
  options.seed = o.seed;
  WatchedSearch search(options);
  options.smallest = budget->kind == Budget::Smallest;
  plan::PlanResult found = planArena(p, options);
  Report r = reportOf(p, found);
  r.planSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found.planned.error.empty())
    return makeErrorCode(5, "internal: the plan is not valid: {0}; please report this",
                         found.planned.error);
  if (llvm::Error e = writeReport(r, o.report))
    return e;
  if (!found.isWithin)
    return notWithin(r, options.budgetBytes);
  if (!o.output.empty() || o.report.empty())
    if (llvm::Error e = writeSchedule(*g, found.schedule, o.output))
      return e;
  Console::get().line(llvm::formatv("peak {0} -> {1}, arena {2}, {3} ops run again, added cost "
                                    "{4:F2} % in {5}",
                                    bytesText(r.baselinePeakBytes), bytesText(r.predictedPeakBytes),
                                    bytesText(r.arenaBytes), r.clones, 100 * r.recomputeOverhead,
                                    secondsText(r.planSeconds))
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
                 "what the arena must not exceed: 2GiB, 500MB, bytes, 50% of the baseline, or min")
      ->required();
  addEffortOption(app, o->effort);
  app.add_option("--seed", o->seed, "of the search")->capture_default_str();
  app.add_option("-o,--output", o->output,
                 "the schedule, as JSON; - for standard output, the default without --report");
  app.add_option("--report", o->report, "a JSON file for the figures");
  app.add_option("--progress", o->progress, "auto, plain or none")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "plain", "none"}));
  return [o] { return runPlan(*o); };
}

} // namespace

const Verb kPlan = {"plan", "finds the fastest schedule of a training graph within a byte budget",
                    "isthmus plan resnet50.json --budget=50% -o schedule.json", setUp};

} // namespace isthmus
