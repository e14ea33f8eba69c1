#include "passes/compile/chunk_choice.h"

#include "ir/provenance.h"
#include "passes/chunk/chunk_search.h"
#include "passes/chunk/request.h"
#include "passes/compile/planning.h"
#include "passes/plan/bound.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr size_t kMostSeeds = 3;    // values a round from which regions grow
constexpr double kLeastShare = .04; // of the peak, of such a value
// Nodes of all chunks of a region together, unless the chunks are few: planning takes longer than
// a graph of more is worth.
constexpr int64_t kMostNodes = 16384, kFewChunks = 8;

class Choice {
public:
  Choice(const Graph &g, const GraphProblem &p, const PlannedGraph &whole, const Target &target,
         const Ways &ways, llvm::ArrayRef<BatchRequest> batch, const plan::SearchOptions &o,
         Price price)
      : target_(target), ways_(ways), batch_(batch), o_(o),
        isAtAnyPrice_(price == Price::Any || !o.smallest), graph_(withUnreducedLosses(g)),
        baselineCost_(plan::evaluate(p.problem, plan::sourceOrder(p.problem)).cost),
        goal_{.isSmallest = o.smallest}, search_(goal_, scoreOf(whole)) {
    seedNames_ = largestAtPeak(g, p, whole.plan);
  }

  llvm::Expected<std::optional<ChunkedPlan>> run() {
    for (bool isFirst = true; search_.goesOn() && !isStopped_; isFirst = false) {
      const std::vector<Form> forms = formsOf(regions(), isFirst);
      std::vector<ChunkSearch::Candidate> candidates;
      for (const Form &form : forms)
        candidates.push_back(form.candidate);
      search_.begin(std::move(candidates));
      if (llvm::Error e = tryAll(forms))
        return e;
    }
    if (!chosen_)
      return std::nullopt;
    return finished();
  }

private:
  // What is tried in several numbers of chunks.
  struct Form {
    std::function<llvm::Expected<Graph>(int64_t)> inChunks;
    ChunkSearch::Candidate candidate;
  };

  // The whole step in micro-batches, at first; and the regions, also with the largest sum of 16-bit
  // values rounded in place.
  std::vector<Form> formsOf(const std::vector<ChunkRegion> &regions, bool isFirst) const {
    std::vector<Form> forms;
    auto most = [](size_t numNodes) {
      return std::max(kFewChunks, kMostNodes / std::max<int64_t>(1, int64_t(numNodes)));
    };
    if (isFirst)
      forms.push_back({[this](int64_t n) { return inMicroBatches(graph_, n, batch_); },
                       {most(graph_.numNodes())}});
    for (const ChunkRegion &region : regions) {
      auto with = [this, region](Rounding rounding) {
        return [this, region, rounding](int64_t n) {
          return llvm::Expected<Graph>(chunked(graph_, region, n, {}, rounding));
        };
      };
      const int64_t mostOfRegion = std::min(region.units, most(region.nodes.size()));
      forms.push_back({with(Rounding::Beside), {mostOfRegion}});
      if (bytesOfShortSums(graph_, region) > 0)
        forms.push_back({with(Rounding::InPlace), {mostOfRegion, forms.size() - 1}});
    }
    return forms;
  }

  // Tries the forms of a round. The best graph so far then is the one to go on from.
  llvm::Error tryAll(llvm::ArrayRef<Form> forms) {
    std::optional<ChunkedPlan> better;
    while (const auto trial = search_.next()) {
      if (!goesOn({}))
        break;
      if (llvm::Error e = tryOne(forms[trial->candidate].inChunks(trial->number), better))
        return e;
    }
    if (!better)
      return llvm::Error::success();
    graph_ = better->graph;
    seedNames_ = largestAtPeak(better->graph, better->problem, better->planned.plan);
    chosen_ = std::move(better);
    return llvm::Error::success();
  }

  // Plans a graph, and tells the search what the plan is worth, or a bound that shows that it is
  // not better. No graph: it cannot be cut into so many.
  llvm::Error tryOne(llvm::Expected<Graph> g, std::optional<ChunkedPlan> &better) {
    if (!g || g->numReplaced() == graph_.numReplaced()) {
      llvm::consumeError(g.takeError());
      search_.tell(std::nullopt);
      return llvm::Error::success();
    }
    auto problem = extractProblem(*g, target_, ways_);
    if (!problem)
      return problem.takeError();
    const ChunkScore bound = boundOf(problem->problem);
    if (!goal_.isBetter(bound, search_.best())) { // then neither is a plan
      search_.tell(bound);
      return llvm::Error::success();
    }
    auto tried = planned(std::move(*g), std::move(*problem), triedEffort());
    if (!tried)
      return tried.takeError();
    if (search_.tell(scoreOf(tried->planned)))
      better = std::move(*tried);
    return llvm::Error::success();
  }

  // With a limit on the price, plans above it are too dear.
  ChunkScore scoreOf(const PlannedGraph &p) const {
    const plan::PlanResult &r = p.plan;
    ChunkScore s = {.isWithin = r.isWithin,
                    .cost = r.planned.cost,
                    .bytes = r.isWithin ? r.arenaBytes : r.smallestBytes};
    if (!isAtAnyPrice_) {
      s.isWithin = r.arenaBytes <= o_.budgetBytes;
      s.isTooDear = isTooDear(plan::overhead(r.planned.cost, baselineCost_), o_.mostAdded);
    }
    return s;
  }

  // Names of original values of `g`, the largest of those that are live at the peak of the plan.
  static std::vector<std::string> largestAtPeak(const Graph &g, const GraphProblem &p,
                                                const plan::PlanResult &plan) {
    const size_t peak = plan::evaluate(p.problem, plan.schedule).peakStep;
    std::vector<std::pair<int64_t, ValueId>> live;
    for (const plan::Instance &i : plan::instancesOf(p.problem, plan.schedule)) {
      if (peak < i.first || peak > i.last || p.problem.ops[i.made.op].isAlternative)
        continue;
      const NodeId node = p.nodeOf(i.made.op);
      const ValueId v = g.node(node).result(i.made.output);
      if (double(i.bytes) >= kLeastShare * double(plan.planned.peakBytes))
        live.emplace_back(i.bytes, v);
    }
    llvm::stable_sort(live, [](const auto &a, const auto &b) { return a.first > b.first; });
    std::vector<std::string> names;
    for (const auto &[bytes, v] : live)
      if (std::string name = g.valueName(v).str(); !llvm::is_contained(names, name))
        names.push_back(std::move(name));
    return names;
  }

  // The regions that grow from these values, each once.
  std::vector<ChunkRegion> regions() const {
    const RegionGraph all = regionGraphOf(graph_);
    std::vector<ChunkRegion> found;
    size_t seeds = 0;
    for (const std::string &name : seedNames_) {
      const ValueId v = graph_.find(name);
      if (!v || !graph_.value(v).def || graph_.node(graph_.value(v).def).isStandIn())
        continue;
      if (++seeds > kMostSeeds)
        break;
      for (const AxisCut cut : cutsToGrowFrom(all, v.index)) {
        std::optional<ChunkRegion> region = growRegion(all, v, cut);
        if (region && llvm::none_of(found, [&](const ChunkRegion &other) {
              return other.nodes == region->nodes && other.cuts.lookup(v) == cut;
            }))
          found.push_back(std::move(*region));
      }
    }
    return found;
  }

  // Tells the caller's progress, to which the best plan of all is the best so far. False: it ends
  // the search.
  bool goesOn(plan::SearchProgress now) {
    if (const ChunkScore &best = search_.best(); now.cost == 0 && best.isWithin)
      now.cost = best.cost;
    isStopped_ |= o_.progress && !o_.progress(now);
    return !isStopped_;
  }

  double triedEffort() const { return o_.effort > 0 ? o_.effort / 8 : 0.25; }

  // A score that no plan of the problem exceeds.
  ChunkScore boundOf(const plan::Problem &p) const {
    const double leastCost = plan::leastCostAtAll(p).value_or(0);
    ChunkScore s = {.isWithin = true, .cost = leastCost};
    if (!isAtAnyPrice_)
      s.isTooDear = isTooDear(plan::overhead(leastCost, baselineCost_), o_.mostAdded);
    if (!goal_.isBetter(s, search_.best()))
      return s;
    s.bytes = plan::lowestPeak(p);
    s.isWithin = o_.smallest || s.bytes <= o_.budgetBytes;
    return s;
  }

  llvm::Expected<ChunkedPlan> planned(Graph g, GraphProblem problem, double effort) {
    plan::SearchOptions o = o_;
    o.effort = effort;
    const double own = plan::evaluate(problem.problem, plan::sourceOrder(problem.problem)).cost;
    o.mostAdded = asShareOf(own, o_.mostAdded, baselineCost_);
    o.progress = [this](const plan::SearchProgress &now) { return goesOn(now); };
    auto planned = planGraph(g, problem, target_, o);
    if (!planned)
      return planned.takeError();
    return ChunkedPlan{std::move(g), std::move(problem), std::move(*planned)};
  }

  // The chosen graph's plan by a search of full length, if that is better.
  llvm::Expected<std::optional<ChunkedPlan>> finished() {
    if (isStopped_)
      return std::move(chosen_);
    auto last = planned(chosen_->graph, chosen_->problem, o_.effort);
    if (!last)
      return last.takeError();
    const bool isWorse = goal_.isBetter(scoreOf(chosen_->planned), scoreOf(last->planned),
                                        ChunkGoal::Gain::Any);
    return isWorse ? std::move(chosen_) : std::optional<ChunkedPlan>(std::move(*last));
  }

  const Target &target_;
  const Ways &ways_;
  const llvm::ArrayRef<BatchRequest> batch_;
  const plan::SearchOptions &o_;
  const bool isAtAnyPrice_;
  Graph graph_; // with the regions chosen so far
  const double baselineCost_;
  const ChunkGoal goal_;
  ChunkSearch search_;
  std::vector<std::string> seedNames_;
  std::optional<ChunkedPlan> chosen_;
  bool isStopped_ = false;
};

} // namespace

llvm::Expected<std::optional<ChunkedPlan>> planInChunks(const Graph &g, const GraphProblem &p,
                                                        const PlannedGraph &whole,
                                                        const Target &target, const Ways &ways,
                                                        llvm::ArrayRef<BatchRequest> batch,
                                                        const plan::SearchOptions &o, Price price) {
  return Choice(g, p, whole, target, ways, batch, o, price).run();
}

} // namespace isthmus
