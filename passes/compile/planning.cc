#include "passes/compile/planning.h"

#include "ir/units.h"
#include "passes/compile/chunk_choice.h"
#include "passes/compile/within_budget.h"
#include "passes/place/place.h"
#include "passes/plan/bound.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include <chrono>

namespace isthmus {

char NotWithin::ID = 0;

namespace {

// The smaller of the budget and the memory limit.
struct Limit {
  bool smallest = false;
  int64_t bytes = INT64_MAX;
  bool isOfMemory = false; // the memory limit is the smaller one
};

// Tells down to which budget memory is cheap.
void noteKnee(Diag &d, const Figures &f) {
  if (f.knee)
    d.notes.emplace_back(kneeText(f));
}

class Planning {
public:
  Planning(Graph given, const CompileOptions &o, const Target &target)
      : given_(std::move(given)), o_(o), target_(target), start_(std::chrono::steady_clock::now()) {
  }

  llvm::Expected<Compiled> run() {
    out_.original = withoutDeadNodes(originalOf(given_));
    if (llvm::Error e = chunkAsAsked())
      return e;
    auto problem = extractProblem(source(), target_, o_.searches() ? o_.ways : Ways());
    if (!problem)
      return problem.takeError();
    problem_ = std::move(*problem);
    figures().mode = modeText(given_).str();
    figures().costs = target_.measured ? "measured" : "estimated";
    figures().persistentBytes = persistentBytes(out_.original, target_);
    if (llvm::Error e = o_.searches() ? withinBudget() : byPolicy())
      return e;
    if (llvm::Error e = finish())
      return e;
    if (llvm::Error e = checkLimit())
      return e;
    if (llvm::Error e = checkAdded(figures(), o_.mostAdded)) // no policy respects it
      return e;
    return std::move(out_);
  }

private:
  // What is planned: the original, or that in the chunks that were asked for.
  const Graph &source() const { return chunked_ ? *chunked_ : out_.original; }

  llvm::Error chunkAsAsked() {
    if (o_.microBatches > 1) {
      if (const auto remark = batchRemark(source(), o_.batch))
        o_.note(*remark);
      auto g = inMicroBatches(source(), o_.microBatches, o_.batch);
      if (!g)
        return g.takeError();
      chunked_ = std::move(*g);
    }
    if (!o_.chunks.empty()) {
      auto g = chunkedAsAsked(source(), o_.chunks);
      if (!g)
        return g.takeError();
      chunked_ = std::move(*g);
    }
    if (!chunked_)
      return llvm::Error::success();
    o_.tell(CompileStep::Chunk, *chunked_);
    noteLostPlan(given_, o_);
    auto whole = sourceStepOf(out_.original);
    if (!whole)
      return whole.takeError();
    baseline_ = *whole;
    // Prices are those of the form that a file of the step keeps: planned anew from the file, the
    // step has the same plan.
    out_.original = originalOf(*chunked_);
    auto kept = sourceStepOf(out_.original);
    if (!kept)
      return kept.takeError();
    baseline_->cost = kept->cost;
    return llvm::Error::success();
  }

  // Of a graph in its order, without plan.
  llvm::Expected<plan::Evaluation> sourceStepOf(const Graph &g) const {
    auto p = extractProblem(g, target_);
    if (!p)
      return p.takeError();
    return plan::evaluate(p->problem, plan::sourceOrder(p->problem));
  }

  // Of source(), in its order.
  plan::Evaluation sourceStep() const {
    return plan::evaluate(problem_.problem, plan::sourceOrder(problem_.problem));
  }
  double sourceCost() const { return sourceStep().cost; }

  // The peak and the cost of the step as it was given: in its order, without plan or chunks.
  plan::Evaluation baseline() const { return baseline_ ? *baseline_ : sourceStep(); }

  Figures &figures() { return out_.figures; }

  void setFigures(const plan::Evaluation &baseline, const plan::Evaluation &planned) {
    Figures &f = figures();
    f.baselinePeakBytes = baseline.peakBytes;
    f.predictedPeakBytes = planned.peakBytes;
    f.outputBytes = planned.outputBytes;
    f.recomputeOverhead = plan::overhead(planned.cost, baseline.cost);
  }

  // Requires that the baseline's peak is known.
  Limit limit() {
    Limit limit;
    if (const auto *budget = std::get_if<Budget>(&o_.plan)) {
      limit.smallest = budget->kind == Budget::Smallest;
      if (!limit.smallest)
        limit.bytes = budget->of(figures().baselinePeakBytes);
    }
    if (o_.memoryLimitBytes) {
      const int64_t left = std::max<int64_t>(0, *o_.memoryLimitBytes - figures().persistentBytes);
      limit.isOfMemory = left < limit.bytes;
      limit.bytes = std::min(limit.bytes, left);
    }
    return limit;
  }

  void record(PlannedBy policyUsed) {
    figures().policyUsed = policyUsed;
    out_.graph.record.policy = policyUsed;
    out_.graph.record.target = target_.name;
    out_.graph.record.budgetBytes = out_.budgetBytes;
  }

  llvm::Error withinBudget() {
    const plan::Evaluation baseline = this->baseline();
    setFigures(baseline, baseline);
    const Limit most = limit();
    plan::SearchOptions options = searchOptions(o_, out_.wasInterrupted);
    options.budgetBytes = most.bytes;
    options.smallest = most.smallest;
    if (baseline_)
      options.mostAdded = asShareOf(sourceCost(), options.mostAdded, baseline_->cost);
    auto found = planGraph(source(), problem_, target_, options);
    if (!found)
      return found.takeError();
    if (o_.ways.chunk && !out_.wasInterrupted)
      if (llvm::Error e = inChunks(*found, options))
        return e;
    // With chunks the problem is another one; all prices are shares of the step as it was given.
    found->plan.baseline = baseline;
    figures().lowerBoundBytes = found->plan.lowestPeak;
    setSmallest(figures(), found->plan);
    if ((o_.findsKnee || !found->plan.isWithin) && !out_.wasInterrupted)
      figures().knee = plan::findKnee(problem_.problem, options, found->plan);
    if (!found->plan.isWithin) {
      figures().hasPlan = false;
      stopClock();
      if (out_.wasInterrupted)
        return interruptedBefore(figures(), most.bytes);
      return most.isOfMemory ? memoryNotMet() : budgetNotMetAt(figures(), most.bytes, o_.mostAdded);
    }
    setFigures(baseline, found->plan.planned);
    setBound(figures(), found->plan);
    out_.pricePerByte = found->plan.pricePerByte;
    out_.budgetBytes = most.smallest ? found->plan.arenaBytes : most.bytes;
    out_.graph = std::move(found->graph);
    out_.layout = std::move(found->layout);
    if (isMarkedByPolicy())
      eraseCheckpointMarks();
    record(PlannedBy::Budget);
    return llvm::Error::success();
  }

  // Takes a plan with chunks if one is better. The smallest plan at any price comes first, since it
  // is what a budget can be met with; if it adds too much, the smallest that does not comes second.
  llvm::Error inChunks(PlannedGraph &found, const plan::SearchOptions &options) {
    auto better =
        planInChunks(source(), problem_, found, target_, o_.ways, o_.batch, options, Price::Any);
    if (!better)
      return better.takeError();
    if (!*better)
      return llvm::Error::success();
    const plan::PlanResult &any = (*better)->planned.plan;
    const int64_t smallest = any.smallestBytes, lowestPeak = any.lowestPeak;
    if (options.smallest &&
        isTooDear(plan::overhead(any.planned.cost, sourceCost()), options.mostAdded)) {
      better = planInChunks(source(), problem_, found, target_, o_.ways, o_.batch, options,
                            Price::Limited);
      if (!better)
        return better.takeError();
    }
    if (*better) {
      found = std::move((*better)->planned);
      problem_ = std::move((*better)->problem);
      out_.original = originalOf((*better)->graph);
    }
    if (smallest > 0)
      found.plan.smallestBytes = std::min(found.plan.smallestBytes, smallest);
    found.plan.lowestPeak = std::min(found.plan.lowestPeak, lowestPeak);
    return llvm::Error::success();
  }

  llvm::Error byPolicy() {
    const auto *policy = std::get_if<PolicyOptions>(&o_.plan);
    auto plan = planPolicy(source(), problem_, policy ? *policy : PolicyOptions());
    if (!plan)
      return plan.takeError();
    figures().lowerBoundBytes = plan::lowestPeak(problem_.problem);
    for (const Remark &note : plan->notes)
      o_.note(note);
    const bool isKept = given_.wasPlanned() && !policy && !chunked_;
    if (isKept) {
      if (llvm::Error e = asItIs(plan->baseline))
        return e;
    } else {
      setFigures(baseline(), plan->planned);
      out_.graph = rematerialize(source(), problem_, plan->schedule);
      record(plan->policyUsed);
      noteCheckpoints(*plan, policy ? policy->policy : Policy::None);
      if (!policy)
        noteIgnoredMarks();
    }
    const GraphRecord &r = out_.graph.record;
    auto layout = placedWithin(out_.graph, target_, isKept ? r.budgetBytes : std::nullopt);
    if (!layout)
      return layout.takeError();
    out_.layout = std::move(*layout);
    if (!isKept)
      return llvm::Error::success();
    figures().arenaBytes = out_.layout.arenaBytes;
    return checkRecord(r, figures(), o_, target_);
  }

  // Names the values that the policy keeps. Policies that choose also mark their nodes, in place of
  // those that the graph had marked, so that `collection` of the new graph is the same plan.
  void noteCheckpoints(const PolicyResult &plan, Policy policy) {
    const bool chose =
        !plan.checkpoints.empty() && (policy == Policy::Speed || policy == Policy::Memory);
    if (chose)
      eraseCheckpointMarks();
    for (ValueId v : plan.checkpoints) {
      figures().checkpoints.push_back(source().valueName(v).str());
      const ValueId now = out_.graph.find(source().valueName(v));
      if (!now)
        continue;
      out_.checkpoints.push_back(now);
      if (Node &n = out_.graph.editNode(out_.graph.value(now).def);
          chose && !n.hasMark(kCheckpointMark))
        n.marks.push_back(kCheckpointMark);
    }
    if (!chose && policy != Policy::Collection && isMarkedByPolicy())
      eraseCheckpointMarks();
  }

  // Marks say nothing without a policy that reads them.
  void noteIgnoredMarks() {
    const size_t marked =
        given_.countNodes([](const Node &n) { return n.hasMark(kCheckpointMark); });
    if (marked > 0 && given_.hasBackward() && !isMarkedByPolicy())
      o_.note({llvm::formatv("nothing reads the #checkpoint marks ({0} of them): the step keeps "
                             "everything",
                             marked)
                   .str(),
               {"policy", "collection", "keep what is marked, and recompute the rest"}});
  }

  // Whether an earlier policy has marked its choice in the given graph.
  bool isMarkedByPolicy() const {
    const PlannedBy policy = given_.record.policy;
    return policy == PlannedBy::Speed || policy == PlannedBy::Memory ||
           policy == PlannedBy::Frontiers;
  }

  void eraseCheckpointMarks() {
    for (uint32_t i = 0; i < out_.graph.numNodes(); ++i)
      llvm::erase_value(out_.graph.editNode(NodeId(i)).marks, kCheckpointMark);
  }

  // Keeps a graph that was planned.
  llvm::Error asItIs(const plan::Evaluation &baseline) {
    auto problem = extractProblem(given_, target_);
    if (!problem)
      return problem.takeError();
    setFigures(baseline, plan::evaluate(problem->problem, plan::sourceOrder(problem->problem)));
    // Chunks, inverses, copies and encodings need less than any schedule of the original alone.
    figures().lowerBoundBytes =
        std::min(*figures().lowerBoundBytes, plan::lowestPeak(problem->problem));
    figures().policyUsed = given_.record.policy;
    out_.graph = std::move(given_);
    return llvm::Error::success();
  }

  void stopClock() {
    figures().planSeconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  llvm::Error finish() {
    Figures &f = figures();
    if (out_.layout.peakBytes != f.predictedPeakBytes)
      return internalError("the plan's peak is {0} bytes, the layout's {1}", f.predictedPeakBytes,
                           out_.layout.peakBytes);
    f.arenaBytes = out_.layout.arenaBytes;
    countNodes(f, out_.graph);
    f.hostBytes = out_.layout.hostBytes;
    stopClock();
    if (f.predictedPeakBytes > (1 << 20) && !isCloseToPeak(f.arenaBytes, f.predictedPeakBytes))
      o_.note("the arena is " + bytesText(f.arenaBytes - f.predictedPeakBytes) +
              " larger than the peak: the least that was found");
    return llvm::Error::success();
  }

  // Checks the limit, which policies and the search for the smallest arena do not respect.
  llvm::Error checkLimit() {
    const Limit most = limit();
    const Figures &f = figures();
    if (f.arenaBytes <= most.bytes)
      return llvm::Error::success();
    if (most.smallest)
      return most.isOfMemory ? memoryNotMet() : budgetNotMetAt(f, most.bytes, o_.mostAdded);
    Diag d = makeDiag("a memory limit of {0} ({1} bytes) cannot be met by the policy: parameters "
                      "and inputs, which are always live, take {2}, and the arena {3}",
                      bytesText(*o_.memoryLimitBytes), *o_.memoryLimitBytes,
                      bytesText(f.persistentBytes), bytesText(f.arenaBytes));
    d.remedies = {{"memory-limit", std::to_string(f.arenaBytes + f.persistentBytes), ""}};
    if (most.bytes > 0)
      d.remedies.push_back({"budget", "min", "search for what fits, without the policy,"});
    return llvm::make_error<NotWithin>(std::move(d), ErrorKind::CannotBeMet, f);
  }

  // Requires figures with the smallest arena that was found.
  llvm::Error memoryNotMet() {
    const Figures &f = figures();
    Diag d = makeDiag("a memory limit of {0} ({1} bytes) cannot be met: parameters and inputs, "
                      "which are always live, take {2}, and the arena {3} at the least that was "
                      "found, where no schedule needs less than {4}",
                      bytesText(*o_.memoryLimitBytes), *o_.memoryLimitBytes,
                      bytesText(f.persistentBytes), bytesText(*f.smallestBudgetBytes),
                      bytesText(*f.lowerBoundBytes));
    d.remedies = {{"memory-limit", std::to_string(f.persistentBytes + *f.smallestBudgetBytes), ""},
                  {"effort", "", "search longer"}};
    noteKnee(d, f);
    return llvm::make_error<NotWithin>(std::move(d), ErrorKind::CannotBeMet, f);
  }

  Graph given_;
  const CompileOptions &o_;
  const Target &target_;
  std::chrono::steady_clock::time_point start_;
  std::optional<Graph> chunked_;             // the original in the chunks that were asked for
  std::optional<plan::Evaluation> baseline_; // of the original, if that is not what is planned
  GraphProblem problem_;                     // of source()
  Compiled out_;
};

} // namespace

double asShareOf(double cost, double mostAdded, double of) {
  return cost > 0 ? (1 + mostAdded) * of / cost - 1 : mostAdded;
}

bool asksForPolicy(const CompileOptions &o) {
  const auto *policy = std::get_if<PolicyOptions>(&o.plan);
  return policy && policy->policy != Policy::None;
}

bool isTooDear(double overhead, std::optional<double> mostAdded) {
  constexpr double kRounding = 1e-9;
  return mostAdded && overhead > *mostAdded + kRounding;
}

llvm::Error checkAdded(const Figures &f, std::optional<double> mostAdded) {
  if (!isTooDear(f.recomputeOverhead, mostAdded))
    return llvm::Error::success();
  Diag d = makeDiag("a plan that adds {0:F1} % of the step's cost at most was not found: this one "
                    "adds {1:F1} %",
                    100 * *mostAdded, 100 * f.recomputeOverhead);
  d.remedies = {{"max-added", llvm::formatv("{0:F1}%", 100 * f.recomputeOverhead + 0.05).str(), ""},
                {"budget", "min", "search for the smallest arena at that price"},
                {"effort", "", "search longer"}};
  return llvm::make_error<NotWithin>(std::move(d), ErrorKind::CannotBeMet, f);
}

plan::SearchOptions searchOptions(const CompileOptions &o, bool &wasInterrupted) {
  plan::SearchOptions options;
  options.mostAdded = o.mostAdded.value_or(options.mostAdded);
  options.effort = o.effort;
  options.seed = o.seed;
  options.progress = [&](const plan::SearchProgress &now) {
    wasInterrupted |= o.progress && !o.progress(now);
    return !wasInterrupted;
  };
  return options;
}

void countNodes(Figures &f, const Graph &g) {
  auto count = [&](StandIn kind) {
    return g.countNodes([kind](const Node &n) { return n.is(kind); });
  };
  f.nodes = g.numNodes();
  f.clones = count(StandIn::Clone);
  f.transfers = g.countNodes([](const Node &n) { return n.op->is(kTransfer); });
  f.messages = g.countNodes([](const Node &n) { return n.op->is(kSend); });
  f.inversions = count(StandIn::Inverse);
  f.encodings = count(StandIn::Encoding);
  f.chunks = count(StandIn::Chunk);
}

llvm::Expected<Compiled> planned(Graph given, const CompileOptions &o, const Target &target) {
  return Planning(std::move(given), o, target).run();
}

llvm::Expected<Layout> placedWithin(const Graph &g, const Target &target,
                                    std::optional<int64_t> budgetBytes) {
  auto layout = place(g, target);
  for (double effort : {2.0, 10.0}) {
    if (!layout || !budgetBytes || layout->arenaBytes <= *budgetBytes ||
        layout->peakBytes > *budgetBytes)
      break;
    auto next = place(g, target, {.enough = *budgetBytes, .effort = effort});
    if (!next || next->arenaBytes < layout->arenaBytes)
      layout = std::move(next);
  }
  return layout;
}

llvm::Error checkRecord(const GraphRecord &r, Figures &f, const CompileOptions &o,
                        const Target &target) {
  const bool isForOther = !r.target.empty() && r.target != target.name;
  if (isForOther)
    o.note("the graph was rewritten for '" + r.target + "'; sizes and places are found anew for '" +
           target.name + "'");
  if (!r.budgetBytes || f.arenaBytes <= *r.budgetBytes)
    return llvm::Error::success();
  Diag d = makeDiag("the graph was planned within {0} ({1} bytes){2}, and its arena on '{3}' is "
                    "{4} ({5} bytes)",
                    bytesText(*r.budgetBytes), *r.budgetBytes,
                    isForOther ? " for '" + r.target + "'" : "", target.name,
                    bytesText(f.arenaBytes), f.arenaBytes);
  d.remedies = {{"budget", "", "plan it anew here"}};
  if (!o.keepsBudget) {
    o.note(Remark(d.message, d.remedies.front()));
    return llvm::Error::success();
  }
  f.hasPlan = false;
  return llvm::make_error<NotWithin>(std::move(d), ErrorKind::CannotBeMet, f);
}

void noteLostPlan(const Graph &given, const CompileOptions &o) {
  if (!given.isRewritten() || !std::holds_alternative<AsItIs>(o.plan))
    return;
  const std::optional<int64_t> budget = given.record.budgetBytes;
  o.note({"the step is divided anew, without the plan in the file" +
              (budget ? ", which was within " + bytesText(*budget) : ""),
          {"budget", budget ? std::to_string(*budget) : "", ""}});
}

llvm::Error budgetNotMet(const Figures &f, int64_t budget) {
  return budgetNotMetAt(f, budget, std::nullopt);
}

llvm::Error budgetNotMetAt(const Figures &f, int64_t budget, std::optional<double> mostAdded) {
  const int64_t smallest = *f.smallestBudgetBytes, bound = *f.lowerBoundBytes;
  Diag d = makeDiag(
      "a budget of {0} ({1} bytes) cannot be met: the smallest that was found is {2} "
      "({3} bytes{4}), and no schedule needs less than {5}{6}",
      bytesText(budget), budget, bytesText(smallest), smallest,
      f.smallestBudgetOverhead ? llvm::formatv(", +{0:F1} %", 100 * *f.smallestBudgetOverhead).str()
                               : "",
      bytesText(bound),
      double(bound) < 0.9995 * double(smallest)
          ? llvm::formatv(" ({0:F1} % less)", 100 * (1 - double(bound) / double(smallest))).str()
          : "");
  d.remedies = {{"budget", std::to_string(smallest), ""}, {"effort", "", "search longer"}};
  if (isTooDear(f.smallestBudgetOverhead.value_or(0), mostAdded))
    d.remedies.front() = {"budget", "min", "search for the smallest arena at that price"};
  noteKnee(d, f);
  return llvm::make_error<NotWithin>(std::move(d), ErrorKind::CannotBeMet, f);
}

llvm::Error interruptedBefore(const Figures &f, int64_t budget) {
  return llvm::make_error<NotWithin>(
      makeDiag("interrupted before a plan within {0} ({1} bytes) was found", bytesText(budget),
               budget),
      ErrorKind::Interrupted, f);
}

} // namespace isthmus
