#include "passes/compile/chunk_choice.h"

#include "ir/provenance.h"
#include "passes/chunk/request.h"
#include "passes/compile/planning.h"
#include "passes/plan/bound.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr size_t kMostRounds = 6;   // regions in all
constexpr size_t kMostSeeds = 3;    // values a round from which regions grow
constexpr double kLeastShare = .04; // of the peak, of such a value
constexpr int64_t kMostChunks = 256;

class Choice {
public:
  Choice(const Graph &g, const GraphProblem &p, const PlannedGraph &whole, const Target &target,
         const Ways &ways, llvm::ArrayRef<BatchRequest> batch, const plan::SearchOptions &o,
         Price price)
      : target_(target), ways_(ways), batch_(batch), o_(o), isAtAnyPrice_(price == Price::Any || !o.smallest),
        graph_(withUnreducedLosses(g)),
        baselineCost_(plan::evaluate(p.problem, plan::sourceOrder(p.problem)).cost),
        best_(scoreOf(whole)) {
    seedNames_ = largestAtPeak(g, p, whole.plan);
  }

  llvm::Expected<std::optional<ChunkedPlan>> run() {
    for (size_t round = 0; round < kMostRounds && !isStopped_; ++round) {
      std::optional<ChunkedPlan> better;
      if (round == 0) { // the whole step
        auto tried = tryNumbers(2, kMostChunks, better,
                                [&](int64_t number) { return inMicroBatches(graph_, number, batch_); });
        if (!tried)
          return tried.takeError();
      }
      for (const ChunkRegion &region : regions())
        if (llvm::Error e = tryRegion(region, better))
          return e;
      if (!better)
        break;
      graph_ = better->graph;
      seedNames_ = largestAtPeak(better->graph, better->problem, better->planned.plan);
      chosen_ = std::move(better);
    }
    if (!chosen_)
      return std::nullopt;
    return finished();
  }

private:
  // Plans within the budget are compared by cost, others by the bytes that they need. With a limit
  // on the price, those above it come last, except where they alone meet the budget.
  struct Score {
    bool isWithin = false;
    bool isTooDear = false;
    double cost = 0;
    int64_t bytes = 0;

    std::pair<bool, bool> rank() const { return {!isWithin, isTooDear}; }
  };

  bool isBetter(const Score &a, const Score &b) const {
    if (a.rank() != b.rank())
      return a.rank() < b.rank();
    if (!a.isWithin || o_.smallest)
      return double(a.bytes) < .995 * double(b.bytes);
    return a.cost < .998 * b.cost;
  }

  Score scoreOf(const PlannedGraph &p) const {
    const plan::PlanResult &r = p.plan;
    Score s = {.isWithin = r.isWithin,
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
    const Uses uses(graph_);
    std::vector<ChunkRegion> found;
    size_t seeds = 0;
    for (const std::string &name : seedNames_) {
      const ValueId v = graph_.find(name);
      if (!v || !graph_.value(v).def || graph_.node(graph_.value(v).def).isStandIn())
        continue;
      if (++seeds > kMostSeeds)
        break;
      for (uint32_t axis = 0; axis < uint32_t(graph_.type(v).rank()); ++axis) {
        if (graph_.type(v).dims[axis] < 2)
          continue;
        std::optional<ChunkRegion> region = growRegion(graph_, uses, v, {axis});
        if (region && region->units > 1 && llvm::none_of(found, [&](const ChunkRegion &other) {
              return other.nodes == region->nodes && other.cuts.lookup(v) == AxisCut{axis};
            }))
          found.push_back(std::move(*region));
      }
    }
    return found;
  }

  using InChunks = llvm::function_ref<llvm::Expected<Graph>(int64_t)>;

  // Plans with the region in chunks; and in so many as are best, and more, with its largest sum of
  // 16-bit values rounded in place.
  llvm::Error tryRegion(const ChunkRegion &region, std::optional<ChunkedPlan> &better) {
    auto inChunks = [&](Rounding rounding) {
      return [&, rounding](int64_t number) {
        return llvm::Expected<Graph>(chunked(graph_, region, number, {}, rounding));
      };
    };
    auto best = tryNumbers(2, region.units, better, inChunks(Rounding::Beside));
    if (!best)
      return best.takeError();
    if (*best == 0 || isStopped_ || bytesOfShortSums(graph_, region) == 0)
      return llvm::Error::success();
    return tryNumbers(*best, region.units, better, inChunks(Rounding::InPlace)).takeError();
  }

  // Plans with `first` chunks, twice as many, and so on, while more of them are better, and with a
  // number between the best of these and the one before. Where the graph cannot be cut into so
  // many, `inChunks` gives an error. Returns the best number, or 0.
  llvm::Expected<int64_t> tryNumbers(int64_t first, int64_t most,
                                     std::optional<ChunkedPlan> &better, InChunks inChunks) {
    std::optional<Score> last;
    int64_t bestNumber = 0;
    int worse = 0;
    for (int64_t n = first; n <= std::min(most, kMostChunks) && worse < 2 && !isStopped_; n *= 2) {
      auto now = tryNumber(n, better, inChunks);
      if (!now)
        return now.takeError();
      if (!*now)
        break;
      const bool isGood = !last || isBetter(**now, *last);
      worse = isGood ? 0 : worse + 1;
      if (isGood) {
        last = **now;
        bestNumber = n;
      }
    }
    if (bestNumber < 4 || isStopped_)
      return bestNumber;
    const int64_t between = bestNumber / 4 * 3;
    auto now = tryNumber(between, better, inChunks);
    if (!now)
      return now.takeError();
    return *now && isBetter(**now, *last) ? between : bestNumber;
  }

  // The score of a plan with so many chunks, which becomes `better` if it is the best so far, or a
  // bound on it that shows that it is not; none if there is no such graph.
  llvm::Expected<std::optional<Score>> tryNumber(int64_t number, std::optional<ChunkedPlan> &better,
                                                 InChunks inChunks) {
    auto g = inChunks(number);
    if (!g) {
      llvm::consumeError(g.takeError());
      return std::nullopt;
    }
    if (g->numReplaced() == graph_.numReplaced())
      return std::nullopt;
    auto problem = extractProblem(*g, target_, ways_);
    if (!problem)
      return problem.takeError();
    const Score bound = boundOf(problem->problem);
    if (!isBetter(bound, best_)) // then neither is a plan
      return bound;
    auto tried = planned(std::move(*g), std::move(*problem), triedEffort());
    if (!tried)
      return tried.takeError();
    const Score now = scoreOf(tried->planned);
    if (isBetter(now, best_)) {
      best_ = now;
      better = std::move(*tried);
    }
    return now;
  }

  double triedEffort() const { return o_.effort > 0 ? o_.effort / 8 : 0.25; }

  // A score that no plan of the problem exceeds.
  Score boundOf(const plan::Problem &p) const {
    const double leastCost = plan::leastCostAtAll(p).value_or(0);
    Score s = {.isWithin = true, .cost = leastCost};
    if (!isAtAnyPrice_)
      s.isTooDear = isTooDear(plan::overhead(leastCost, baselineCost_), o_.mostAdded);
    if (!isBetter(s, best_))
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
    o.progress = [this](const plan::SearchProgress &now) {
      isStopped_ |= o_.progress && !o_.progress(now);
      return !isStopped_;
    };
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
    const Score a = scoreOf(last->planned), b = scoreOf(chosen_->planned);
    const bool isWorse = a.rank() != b.rank()         ? b.rank() < a.rank()
                         : a.isWithin && !o_.smallest ? a.cost > b.cost
                                                      : a.bytes > b.bytes;
    return isWorse ? std::move(chosen_) : std::optional<ChunkedPlan>(std::move(*last));
  }

  const Target &target_;
  const Ways &ways_;
  const llvm::ArrayRef<BatchRequest> batch_;
  const plan::SearchOptions &o_;
  const bool isAtAnyPrice_;
  Graph graph_; // with the regions chosen so far
  const double baselineCost_;
  Score best_;
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
