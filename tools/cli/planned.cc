#include "tools/cli/planned.h"

#include "passes/compile/budget.h"
#include "passes/place/place.h"
#include "passes/plan/bound.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tools/cli/budget.h"
#include "tools/cli/model.h"
#include <chrono>

namespace isthmus {
namespace {

size_t countClones(const Graph &g) {
  size_t n = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    n += g.node(NodeId(i)).isClone();
  return n;
}

PolicyOptions policyOptions(const PlanOptions &o) {
  PolicyOptions p;
  if (o.checkpointsGiven)
    p.policy = Policy::Collection;
  else if (!o.policy.empty())
    p.policy = *parsePolicy(o.policy);
  p.checkpoints = o.checkpoints;
  return p;
}

// --memory-limit and --budget as one figure; both relative to this graph.
struct Limit {
  bool smallest = false;
  int64_t bytes = INT64_MAX;
  bool isOfMemory = false; // --memory-limit decides
};

llvm::Expected<Limit> limitOf(const PlanOptions &o, int64_t baseline, int64_t persistent) {
  Limit limit;
  if (!o.budget.empty()) {
    auto budget = parseBudget(o.budget);
    if (!budget)
      return budget.takeError();
    limit.smallest = budget->kind == Budget::Smallest;
    if (!limit.smallest)
      limit.bytes = budget->of(baseline);
  }
  if (!o.memoryLimit.empty()) {
    auto most = parseBudget(o.memoryLimit, "--memory-limit");
    if (!most)
      return most.takeError();
    const int64_t left = std::max<int64_t>(0, most->bytes - persistent);
    limit.isOfMemory = left < limit.bytes;
    limit.bytes = std::min(limit.bytes, left);
  }
  return limit;
}

class Work {
public:
  Work(const Graph &given, const PlanOptions &o, const Target &target,
       const std::string &reportPath)
      : given_(given), o_(o), target_(target), reportPath_(reportPath),
        start_(std::chrono::steady_clock::now()) {}

  llvm::Expected<Planned> run() {
    source_ = withoutDeadNodes(originalOf(given_));
    auto problem = extractProblem(source_, target_);
    if (!problem)
      return problem.takeError();
    problem_ = std::move(*problem);
    report().mode = modeOf(given_);
    report().persistentBytes = persistentBytes(source_, target_);
    report().lowerBoundBytes = plan::lowestPeak(problem_.problem);
    if (o_.hasBudget() && o_.policy.empty() && !o_.checkpointsGiven) {
      if (llvm::Error e = withinBudget())
        return e;
    } else if (llvm::Error e = byPolicy()) {
      return e;
    }
    if (llvm::Error e = finish())
      return e;
    if (llvm::Error e = checkLimit())
      return e;
    return std::move(out_);
  }

private:
  Report &report() { return out_.report; }

  void setFigures(const plan::Evaluation &baseline, const plan::Evaluation &planned) {
    Report &r = report();
    r.baselinePeakBytes = baseline.peakBytes;
    r.predictedPeakBytes = planned.peakBytes;
    r.outputBytes = planned.outputBytes;
    r.recomputeOverhead = plan::overhead(planned.cost, baseline.cost);
  }

  void nameTarget(const std::string &policyUsed) {
    out_.graph.meta["target"] = target_.name;
    out_.graph.meta["policy"] = report().policyUsed = policyUsed;
  }

  llvm::Error withinBudget() {
    plan::Evaluation baseline =
        plan::evaluate(problem_.problem, plan::sourceOrder(problem_.problem));
    setFigures(baseline, baseline);
    auto limit = limitOf(o_, baseline.peakBytes, report().persistentBytes);
    if (!limit)
      return limit.takeError();
    plan::PlanOptions options;
    options.budgetBytes = limit->bytes;
    options.smallest = limit->smallest;
    options.effort = o_.effort;
    options.seed = o_.seed;
    WatchedSearch search(options);
    auto found = planGraph(source_, problem_, target_, options);
    if (!found)
      return found.takeError();
    out_.wasInterrupted = search.wasInterrupted();
    if (found->plan.smallestBytes > 0)
      report().smallestBudgetBytes = found->plan.smallestBytes;
    if (!found->plan.isWithin) {
      stopClock();
      if (llvm::Error e = writeReport(report(), reportPath_))
        return e;
      if (out_.wasInterrupted)
        return interruptedBefore(limit->bytes);
      return limit->isOfMemory ? notWithinMemory() : notWithin(report(), limit->bytes);
    }
    setFigures(baseline, found->plan.planned);
    setBound(report(), found->plan);
    out_.pricePerByte = found->plan.pricePerByte;
    out_.budgetBytes = limit->smallest ? found->plan.smallestBytes : limit->bytes;
    out_.graph = std::move(found->graph);
    out_.layout = std::move(found->layout);
    nameTarget("budget");
    return llvm::Error::success();
  }

  llvm::Error byPolicy() {
    auto plan = planPolicy(source_, problem_, policyOptions(o_));
    if (!plan)
      return plan.takeError();
    for (const std::string &note : plan->notes)
      Console::get().note(note);
    if (wasPlanned(given_) && !o_.any()) {
      if (llvm::Error e = asItIs(plan->baseline))
        return e;
    } else {
      setFigures(plan->baseline, plan->planned);
      out_.graph = rematerialize(source_, problem_, plan->schedule);
      nameTarget(plan->policyUsed);
      for (ValueId v : plan->checkpoints)
        if (ValueId now = out_.graph.find(source_.valueName(v)))
          out_.checkpoints.push_back(now);
    }
    auto layout = place(out_.graph, target_);
    if (!layout)
      return layout.takeError();
    out_.layout = std::move(*layout);
    return llvm::Error::success();
  }

  // A rewritten graph, kept.
  llvm::Error asItIs(const plan::Evaluation &baseline) {
    out_.graph = given_;
    if (auto made = given_.meta.find("target");
        made != given_.meta.end() && made->second != target_.name)
      Console::get().note("the graph was rewritten for '" + made->second +
                          "'; sizes and places are found anew for '" + target_.name + "'");
    auto problem = extractProblem(given_, target_);
    if (!problem)
      return problem.takeError();
    setFigures(baseline, plan::evaluate(problem->problem, plan::sourceOrder(problem->problem)));
    report().policyUsed = given_.meta.count("policy") ? given_.meta.at("policy") : "as written";
    return llvm::Error::success();
  }

  void stopClock() {
    report().planSeconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  llvm::Error finish() {
    Report &r = report();
    if (out_.layout.peakBytes != r.predictedPeakBytes)
      return makeErrorCode(
          5, "internal: the plan's peak is {0} bytes, the layout's {1}; please report this",
          r.predictedPeakBytes, out_.layout.peakBytes);
    r.arenaBytes = out_.layout.arenaBytes;
    r.nodes = out_.graph.numNodes();
    r.clones = countClones(out_.graph);
    stopClock();
    if (r.predictedPeakBytes > (1 << 20) &&
        double(r.arenaBytes) > 1.01 * double(r.predictedPeakBytes))
      Console::get().note("the arena is " + bytesText(r.arenaBytes - r.predictedPeakBytes) +
                          " larger than the peak: the least that was found");
    return llvm::Error::success();
  }

  // A search within a budget has seen to it; a policy has not, nor a search for the least.
  llvm::Error checkLimit() {
    auto limit = limitOf(o_, report().baselinePeakBytes, report().persistentBytes);
    if (!limit)
      return limit.takeError();
    if (report().arenaBytes <= limit->bytes)
      return llvm::Error::success();
    if (llvm::Error e = writeReport(report(), reportPath_))
      return e;
    if (limit->smallest)
      return limit->isOfMemory ? notWithinMemory() : notWithin(report(), limit->bytes);
    return makeErrorCode(
        3,
        "--memory-limit={0} cannot be met by the policy: parameters and inputs, which are always "
        "there, take {1}, and the arena {2}; give --memory-limit={3}{4}",
        o_.memoryLimit, bytesText(report().persistentBytes), bytesText(report().arenaBytes),
        report().arenaBytes + report().persistentBytes,
        limit->bytes > 0 ? ", or leave out the policy, so that what fits is searched for" : "");
  }

  // Exit code 3; the report has the least arena that was found.
  llvm::Error notWithinMemory() {
    const Report &r = report();
    return makeErrorCode(3,
                         "--memory-limit={0} cannot be met: parameters and inputs, which are "
                         "always there, take {1}, "
                         "and the arena {2} at the least that was found, where no schedule needs "
                         "less than {3}; give "
                         "--memory-limit={4}, or a larger --effort",
                         o_.memoryLimit, bytesText(r.persistentBytes),
                         bytesText(*r.smallestBudgetBytes), bytesText(*r.lowerBoundBytes),
                         r.persistentBytes + *r.smallestBudgetBytes);
  }

  const Graph &given_;
  const PlanOptions &o_;
  const Target &target_;
  const std::string &reportPath_;
  std::chrono::steady_clock::time_point start_;
  Graph source_;
  GraphProblem problem_;
  Planned out_;
};

} // namespace

llvm::Expected<Planned> planned(const Graph &given, const PlanOptions &o, const Target &target,
                                const std::string &reportPath) {
  return Work(given, o, target, reportPath).run();
}

void setBound(Report &r, const plan::PlanResult &found) {
  if (!found.isWithin)
    return;
  r.lowerBoundOverhead = std::nullopt;
  if (found.leastCost)
    r.lowerBoundOverhead = plan::overhead(*found.leastCost, found.baseline.cost);
  if (r.lowerBoundOverhead > 1e-12)
    r.boundModel = "plan-order";
}

WatchedSearch::WatchedSearch(plan::PlanOptions &options) {
  options.progress = [this](const plan::PlanProgress &now) {
    bar_.at(static_cast<size_t>(double(kParts) * now.share));
    return !wasInterrupted();
  };
}

llvm::Error notWithin(const Report &r, int64_t budget) {
  return makeErrorCode(
      3,
      "a budget of {0} ({1} bytes) cannot be met: the smallest that was found is "
      "{2} ({3} bytes), and no schedule needs less than {4}; give --budget={3}, or "
      "a larger --effort",
      bytesText(budget), budget, bytesText(*r.smallestBudgetBytes), *r.smallestBudgetBytes,
      bytesText(*r.lowerBoundBytes));
}

llvm::Error interruptedBefore(int64_t budget) {
  return makeErrorCode(130, "interrupted before a plan within {0} ({1} bytes) was found",
                       bytesText(budget), budget);
}

llvm::Error interruptedError() {
  return makeErrorCode(130, "interrupted: the best plan until then was taken");
}

} // namespace isthmus
