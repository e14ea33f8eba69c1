#include "passes/compile/stages.h"

#include "ir/check.h"
#include "ir/place.h"
#include "ir/units.h"
#include "passes/compile/divided_step.h"
#include "passes/compile/planning.h"
#include "passes/compile/within_budget.h"
#include "passes/place/place.h"
#include "passes/plan/bound.h"
#include "passes/rebuild.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "passes/stages/checkpoint_mode.h"
#include "passes/stages/messages.h"
#include "passes/stages/place_problem.h"
#include "passes/stages/simulate.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>
#include <cmath>

namespace isthmus {

bool hasStages(const Graph &g, const CompileOptions &o) { return o.stages || !Places(g).isOne(); }

namespace {

// The divided step in an order, before it is planned.
struct OrderedStep {
  StageOrder order = StageOrder::OneFOneB;
  Graph graph; // with messages
  GraphProblem problem;
  std::vector<PlaceProblem> places;
};

// A plan of all devices: schedules, and what they need and take.
struct Candidate {
  Candidate(const OrderedStep &step, std::optional<CheckpointMode> mode) : step(&step), mode(mode) {}

  const OrderedStep *step;
  std::optional<CheckpointMode> mode;  // none: planned
  std::vector<plan::PlanResult> plans; // by place
  Graph rewritten;
  StepTimes times;

  PlannedBy by() const { return mode ? PlannedBy::None : PlannedBy::Budget; }
  int64_t arenaBytes() const {
    int64_t most = 0;
    for (const plan::PlanResult &p : plans)
      most = std::max(most, p.arenaBytes);
    return most;
  }
};

class StagedPlanning {
public:
  StagedPlanning(Graph given, const CompileOptions &o, const Target &target)
      : given_(std::move(given)), o_(o), s_(o.stages ? *o.stages : StageOptions()), target_(target),
        start_(std::chrono::steady_clock::now()) {}

  llvm::Expected<Compiled> run() {
    if (llvm::Error e = checkOptions())
      return e;
    if (keepsGiven())
      return asItIs();
    out_.original = withoutDeadNodes(originalOf(given_));
    auto divided = dividedStep(out_.original, o_, target_);
    if (!divided)
      return divided.takeError();
    step_ = std::move(*divided);
    if (llvm::Error e = findBest())
      return e;
    best_->rewritten.record.target = target_.name;
    best_->rewritten.record.policy = best_->by();
    best_->rewritten.record.budgetBytes = out_.budgetBytes;
    out_.graph = std::move(best_->rewritten);
    out_.original = originalOf(out_.graph);
    return finish();
  }

private:
  // --- What was asked for

  llvm::Error checkOptions() const {
    if (o_.ways.invert || o_.ways.chunk)
      return makeError("a plan over several devices recomputes, fetches and encodes; inverses and "
                       "chunks of its own choice are for one device");
    if (!o_.chunks.empty())
      return makeError("a region in chunks is for one device, and the step runs on several; its "
                       "micro-batches are such chunks");
    if (const auto *policy = std::get_if<PolicyOptions>(&o_.plan);
        policy && policy->policy != Policy::None)
      return addRemedy(addRemedy(makeError("a fixed policy chooses what one device keeps, and the "
                                           "step runs on several"),
                                 {"checkpoint", "always", "recompute in every micro-batch"}),
                       {"budget", "", "plan within the bytes of each device"});
    return llvm::Error::success();
  }

  bool keepsGiven() const {
    return !o_.stages && hasMessages(given_) && std::holds_alternative<AsItIs>(o_.plan) &&
           !o_.memoryLimitBytes && o_.microBatches < 2;
  }

  // --- Candidates

  // An order that comes later in the list, and holds more, is taken if it is faster than this.
  static constexpr double kMuch = 0.995;

  std::vector<StageOrder> orders() const {
    if (s_.order)
      return {*s_.order};
    std::vector<StageOrder> all{StageOrder::OneFOneB, StageOrder::GPipe, StageOrder::ZeroBubble};
    if (step_.devices.size() < step_.numStages)
      all.insert(all.begin(), StageOrder::Interleaved);
    return all;
  }

  llvm::Expected<OrderedStep> inOrder(StageOrder order) const {
    OrderOptions options;
    options.order = order;
    options.devices = step_.devices;
    options.machine = s_.machine;
    OrderedGraph ordered = inPipelineOrder(step_.graph, step_.stageOf, target_, options);
    for (uint32_t i = 0; i < ordered.graph.numNodes(); ++i)
      ordered.graph.editNode(NodeId(i)).device = step_.deviceOf(ordered.stageOf[i]);
    OrderedStep c;
    c.order = order;
    c.graph = withMessages(ordered.graph);
    auto problem = extractProblem(c.graph, target_, o_.searches() ? o_.ways : Ways());
    if (!problem)
      return problem.takeError();
    c.problem = std::move(*problem);
    c.places = placeProblems(c.graph, c.problem, Places(c.graph));
    return c;
  }

  // The most that the arena of each place may have.
  struct Limits {
    std::vector<int64_t> bytes;
    bool isSmallest = false;
    int64_t largest() const { return *std::max_element(bytes.begin(), bytes.end()); }
    bool isTight() const { return largest() < INT64_MAX; }
  };

  // A plan with a mode for each place.
  Candidate inMode(const OrderedStep &step, CheckpointMode mode, const Limits &limits) const {
    Candidate c(step, mode);
    for (size_t i = 0; i < step.places.size(); ++i) {
      plan::SearchOptions options; // offsets are searched for until they suffice
      options.budgetBytes = limits.isSmallest ? 0 : limits.bytes[i];
      c.plans.push_back(replayed(step.places[i].problem,
                                 checkpointed(step.graph, step.problem, step.places[i], mode),
                                 options));
    }
    finishCandidate(c);
    return c;
  }

  void finishCandidate(Candidate &c) const {
    const OrderedStep &step = *c.step;
    std::vector<plan::Schedule> schedules;
    for (const plan::PlanResult &p : c.plans)
      schedules.push_back(p.schedule);
    c.rewritten = rematerialize(step.graph, step.problem,
                                joined(step.graph, step.problem, step.places, schedules));
    c.times = simulateStep(c.rewritten, target_, s_.machine);
  }

  // Each place planned within the limit; equal problems once.
  Candidate planned(const OrderedStep &step, const Limits &limits) {
    Candidate c(step, std::nullopt);
    for (size_t number = 0; number < step.places.size(); ++number) {
      const PlaceProblem &place = step.places[number];
      const int64_t limit = limits.bytes[number];
      plan::SearchOptions options = searchOptions(o_, out_.wasInterrupted);
      options.budgetBytes = limit;
      options.smallest = limits.isSmallest;
      const std::string key = keyOf(place.problem);
      auto known = plans_.find({key, limit});
      if (known == plans_.end())
        known = plans_.emplace(std::make_pair(key, limit), planArena(place.problem, options).plan)
                    .first;
      c.plans.push_back(known->second);
    }
    if (llvm::all_of(c.plans, [](const plan::PlanResult &p) { return p.isWithin; }))
      finishCandidate(c);
    return c;
  }

  // What a plan depends on.
  static std::string keyOf(const plan::Problem &p) {
    std::string key;
    auto put = [&](const auto &x) { key.append(reinterpret_cast<const char *>(&x), sizeof(x)); };
    for (const plan::Op &op : p.ops) {
      put(op.phase), put(op.cost), put(op.workspace), put(op.viewOf), put(op.isPinned);
      put(op.recomputable), put(op.isAlternative), put(op.of), put(op.ofOutput);
      put(op.transfer), put(op.transferTime);
      for (const plan::Read &r : op.inputs)
        put(r.op), put(r.output);
      put(char(';'));
      for (int64_t bytes : op.outputBytes)
        put(bytes);
      put(char(';'));
      for (const auto &d : op.donations)
        put(d.input), put(d.output);
      put(char(';'));
      for (uint32_t input : op.overwrites)
        put(input);
      put(char('\n'));
    }
    for (const plan::Read &r : p.outputs)
      put(r.op), put(r.output);
    return key;
  }

  // The fastest candidate, by the simulator, that every device has room for.
  llvm::Error findBest() {
    for (StageOrder order : orders()) {
      auto step = inOrder(order);
      if (!step)
        return step.takeError();
      steps_.push_back(std::move(*step));
    }
    setBaseline();
    const Limits asked = findLimits();
    Limits limits = asked;
    // The offsets of a device's graph are searched for once more, and may end higher than those of
    // its plan: then it is planned within less.
    constexpr int kMostTries = 4;
    for (int i = 0; i < kMostTries; ++i) {
      best_.reset();
      if (llvm::Error e = findBest(limits))
        return e;
      auto excess = placeBest(asked);
      if (!excess)
        return excess.takeError();
      if (llvm::all_of(*excess, [](int64_t bytes) { return bytes == 0; })) {
        if (o_.searches())
          out_.budgetBytes = asked.isSmallest ? best_->arenaBytes() : asked.largest();
        return llvm::Error::success();
      }
      for (size_t k = 0; k < excess->size(); ++k)
        limits.bytes[k] -= (*excess)[k];
    }
    return notMet(asked);
  }

  // Places the programs of the best plan. Returns by how much the arena of each exceeds its limit.
  llvm::Expected<std::vector<int64_t>> placeBest(const Limits &limits) {
    std::vector<int64_t> excess;
    layouts_.clear();
    for (const Program &p : programsOf(best_->rewritten)) {
      const int64_t limit = limits.bytes[excess.size()];
      auto layout = place(p.graph, target_);
      if (layout && layout->arenaBytes > limit)
        layout = place(p.graph, target_, {.enough = limit, .effort = 2});
      if (!layout)
        return layout.takeError();
      excess.push_back(std::max<int64_t>(0, layout->arenaBytes - limit));
      least_ = excess.back() > 0 ? std::max(least_, layout->arenaBytes) : least_;
      layouts_.push_back(std::move(*layout));
    }
    return excess;
  }

  llvm::Error findBest(const Limits &limits) {
    const bool plans = o_.searches() || limits.isTight();
    const std::vector<CheckpointMode> modes =
        s_.checkpoint       ? std::vector<CheckpointMode>{*s_.checkpoint}
        : limits.isSmallest ? std::vector<CheckpointMode>{CheckpointMode::Always}
        : plans ? std::vector<CheckpointMode>{CheckpointMode::Never, CheckpointMode::ExceptLast,
                                              CheckpointMode::Always}
                : std::vector<CheckpointMode>{CheckpointMode::Never};
    for (const OrderedStep &step : steps_) {
      for (CheckpointMode mode : modes)
        consider(inMode(step, mode, limits), limits);
      if (plans && !s_.checkpoint)
        consider(planned(step, limits), limits);
    }
    return best_ && fits(*best_, limits) ? llvm::Error::success() : notMet(limits);
  }

  Limits findLimits() const {
    Limits limits;
    int64_t most = INT64_MAX;
    if (const auto *budget = std::get_if<Budget>(&o_.plan)) {
      limits.isSmallest = budget->kind == Budget::Smallest;
      if (!limits.isSmallest)
        most = budget->of(out_.figures.baselinePeakBytes);
    }
    for (const auto &[device, always] : persistent_) {
      int64_t limit = most;
      if (o_.memoryLimitBytes)
        limit = std::min(limit, std::max<int64_t>(0, *o_.memoryLimitBytes - always));
      if (const Machine::Device *d = s_.machine.find(device); d && d->memoryBytes)
        limit = std::min(limit, std::max<int64_t>(0, *d->memoryBytes - always));
      limits.bytes.push_back(limit);
    }
    return limits;
  }

  static bool fits(const Candidate &c, const Limits &limits) {
    for (size_t i = 0; i < c.plans.size(); ++i)
      if (c.plans[i].arenaBytes > limits.bytes[i])
        return false;
    return true;
  }

  // The step without a plan, in the order that is then the fastest.
  void setBaseline() {
    size_t fastest = 0;
    double least = INFINITY;
    for (size_t i = 0; i < steps_.size(); ++i)
      if (const double seconds = simulateStep(steps_[i].graph, target_, s_.machine).seconds;
          seconds < least * kMuch) {
        least = seconds;
        fastest = i;
      }
    const OrderedStep &c = steps_[fastest];
    for (const Program &p : programsOf(c.graph))
      persistent_.push_back({p.device, persistentBytes(p.graph, target_)});
    Figures &f = out_.figures;
    baselineCost_ = 0;
    int64_t lowest = 0;
    for (const PlaceProblem &place : c.places) {
      const plan::Evaluation e = plan::evaluate(place.problem, plan::sourceOrder(place.problem));
      baselinePeaks_.push_back(e.peakBytes);
      f.baselinePeakBytes = std::max(f.baselinePeakBytes, e.peakBytes);
      baselineCost_ += e.cost;
      lowest = std::max(lowest, plan::lowestPeak(place.problem));
    }
    f.lowerBoundBytes = lowest;
  }

  // Takes the candidate if it is the first, or better: within the limit, and then faster, or
  // smaller where that is what was asked for.
  void consider(Candidate c, const Limits &limits) {
    const int64_t arena = c.arenaBytes();
    least_ = std::min(least_, arena);
    leastOf_.resize(c.plans.size(), INT64_MAX);
    for (size_t i = 0; i < c.plans.size(); ++i)
      leastOf_[i] = std::min(leastOf_[i], c.plans[i].arenaBytes);
    for (const plan::PlanResult &p : c.plans)
      if (!p.isWithin && !c.mode)
        return;
    if (o_.mostAdded && added(c) > *o_.mostAdded + 1e-9)
      return;
    if (!s_.checkpoint && !fits(c, limits))
      return;
    const bool isBetter =
        !best_ ||
        (limits.isSmallest ? std::make_pair(double(arena), c.times.seconds) <
                                 std::make_pair(double(best_->arenaBytes()), best_->times.seconds)
                           : c.times.seconds < best_->times.seconds * kMuch);
    if (isBetter)
      best_ = std::move(c);
  }

  double added(const Candidate &c) const {
    double cost = 0;
    for (const plan::PlanResult &p : c.plans)
      cost += p.planned.cost;
    return plan::overhead(cost, baselineCost_);
  }

  llvm::Error notMet(const Limits &limits) {
    out_.figures.predictedPeakBytes = out_.figures.baselinePeakBytes;
    out_.figures.smallestBudgetBytes = least_;
    if (out_.wasInterrupted)
      return interruptedBefore(out_.figures, limits.largest());
    if (llvm::Error e = memoryNotMet())
      return e;
    return budgetNotMet(out_.figures, limits.largest());
  }

  // An error for the first device whose memory is too small for the least that was found there.
  llvm::Error memoryNotMet() const {
    for (size_t i = 0; i < persistent_.size(); ++i) {
      const auto &[device, always] = persistent_[i];
      const Machine::Device *d = s_.machine.find(device);
      if (!d || !d->memoryBytes || leastOf_[i] <= *d->memoryBytes - always)
        continue;
      Diag diag =
          makeDiag("the memory of {0}, {1}, does not suffice for its stage: parameters and "
                   "inputs take {2}, and the arena {3} at the least that was found",
                   d->name, bytesText(*d->memoryBytes), bytesText(always), bytesText(leastOf_[i]));
      diag.remedies = {{"stages", "", "divide the step among more devices"},
                       {"balance", "", "give this device a smaller share"},
                       {"microbatches", "", "make micro-batches smaller"}};
      return llvm::make_error<NotWithin>(std::move(diag), ErrorKind::CannotBeMet, out_.figures);
    }
    return llvm::Error::success();
  }

  // --- The result

  // Keeps a graph that was planned over devices.
  llvm::Expected<Compiled> asItIs() {
    out_.original = withoutDeadNodes(originalOf(given_));
    out_.graph = std::move(given_);
    out_.figures.policyUsed = out_.graph.record.policy;
    const Graph plain = withoutClones(out_.graph);
    for (bool isPlain : {true, false}) {
      const Graph &g = isPlain ? plain : out_.graph;
      auto problem = extractProblem(g, target_);
      if (!problem)
        return problem.takeError();
      double cost = 0;
      for (const PlaceProblem &place : placeProblems(g, *problem, Places(g))) {
        const plan::Evaluation e = plan::evaluate(place.problem, plan::sourceOrder(place.problem));
        cost += e.cost;
        if (isPlain) {
          baselinePeaks_.push_back(e.peakBytes);
          out_.figures.baselinePeakBytes = std::max(out_.figures.baselinePeakBytes, e.peakBytes);
        }
      }
      (isPlain ? baselineCost_ : cost_) = cost;
    }
    return finish();
  }

  static Graph withoutClones(const Graph &g) {
    Rebuilder r(g);
    r.copyInputs();
    for (uint32_t i = 0; i < g.numNodes(); ++i) {
      const Node &n = g.node(NodeId(i));
      if (n.isClone())
        for (uint32_t k = 0; k < n.numResults; ++k)
          r.setMap(n.result(k), r.map(g.node(n.from.origin).result(k)));
      else if (n.is(StandIn::Boundary))
        r.setMap(n.firstResult, r.map(n.operands[0]));
      else
        r.copyNode(NodeId(i));
    }
    return r.finish();
  }

  llvm::Expected<Compiled> finish() {
    Figures &f = out_.figures;
    f.mode = modeText(out_.original).str();
    f.costs = target_.measured ? "measured" : "estimated";
    const StepTimes times = simulateStep(out_.graph, target_, s_.machine);
    const Places places(out_.graph);
    for (Program &p : programsOf(out_.graph)) {
      llvm::Expected<Layout> layout =
          layouts_.empty() ? place(p.graph, target_)
                           : llvm::Expected<Layout>(std::move(layouts_[out_.programs.size()]));
      if (!layout)
        return layout.takeError();
      StageFigures s;
      s.device = p.device;
      const uint32_t number = *places.find(p.device);
      s.baselinePeakBytes = number < baselinePeaks_.size() ? baselinePeaks_[number] : 0;
      s.predictedPeakBytes = layout->peakBytes;
      s.arenaBytes = layout->arenaBytes;
      s.persistentBytes = persistentBytes(p.graph, target_);
      s.busySeconds = times.places[number].busy;
      s.nodes = p.graph.numNodes();
      if (best_ && layout->peakBytes != best_->plans[number].planned.peakBytes)
        return internalError("the plan's peak on {0} is {1} bytes, the layout's {2}", p.device,
                             best_->plans[number].planned.peakBytes, layout->peakBytes);
      f.predictedPeakBytes = std::max(f.predictedPeakBytes, s.predictedPeakBytes);
      f.arenaBytes = std::max(f.arenaBytes, s.arenaBytes);
      f.persistentBytes = std::max(f.persistentBytes, s.persistentBytes);
      f.hostBytes += layout->hostBytes;
      for (ValueId v : p.graph.outputs())
        s.outputBytes += target_.rounded(p.graph.type(v).bytes());
      f.outputBytes = std::max(f.outputBytes, s.outputBytes);
      f.stages.push_back(s);
      out_.programs.push_back({std::move(p), std::move(*layout)});
    }
    out_.layout.peakBytes = f.predictedPeakBytes;
    out_.layout.arenaBytes = f.arenaBytes;
    f.simulatedSeconds = times.seconds;
    f.bubble = times.bubble();
    if (best_) {
      f.policyUsed = best_->by();
      f.schedule = stageOrderName(best_->step->order).str();
      f.checkpoint = best_->mode ? checkpointModeName(*best_->mode).str() : "auto";
      f.recomputeOverhead = added(*best_);
      if (out_.budgetBytes && least_ < INT64_MAX)
        f.smallestBudgetBytes = least_;
    } else {
      f.recomputeOverhead = plan::overhead(cost_, baselineCost_);
    }
    f.lowerBoundOverhead = f.recomputeOverhead > 0 ? std::optional<double>() : 0;
    countNodes(f, out_.graph);
    f.planSeconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return std::move(out_);
  }

  Graph given_;
  const CompileOptions &o_;
  const StageOptions s_;
  const Target &target_;
  std::chrono::steady_clock::time_point start_;
  DividedStep step_;
  std::vector<OrderedStep> steps_;
  std::vector<std::pair<std::string, int64_t>> persistent_; // by place: device, bytes always there
  std::vector<int64_t> baselinePeaks_;                      // by place
  double baselineCost_ = 0, cost_ = 0;                      // microseconds
  std::map<std::pair<std::string, int64_t>, plan::PlanResult> plans_;
  std::optional<Candidate> best_;
  std::vector<Layout> layouts_;  // of the programs of the best plan
  int64_t least_ = INT64_MAX;    // the smallest of the candidates' largest arenas
  std::vector<int64_t> leastOf_; // by place, the smallest arena of the candidates
  Compiled out_;
};

} // namespace

llvm::Expected<Compiled> plannedInStages(Graph given, const CompileOptions &o,
                                         const Target &target) {
  return StagedPlanning(std::move(given), o, target).run();
}

} // namespace isthmus
