#include "passes/compile/staged_plan.h"

#include "ir/place.h"
#include "passes/compile/planning.h"
#include "passes/compile/stage_limits.h"
#include "passes/compile/within_budget.h"
#include "passes/place/place.h"
#include "passes/plan/bound.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/stages/checkpoint_mode.h"
#include "passes/stages/early_recomputation.h"
#include "passes/stages/messages.h"
#include "passes/stages/place_problem.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <memory>

namespace isthmus {

std::vector<StageOrder> ordersToTry(const DividedStep &step, const StageOptions &s) {
  if (s.order)
    return {*s.order};
  if (step.waitsForAll)
    return {StageOrder::GPipe};
  std::vector<StageOrder> all{StageOrder::OneFOneB, StageOrder::GPipe, StageOrder::ZeroBubble};
  if (step.devices.size() < step.numStages)
    all.insert(all.begin(), StageOrder::Interleaved);
  return all;
}

namespace {

// The divided step in an order, before it is planned.
struct OrderedStep {
  StageOrder order = StageOrder::OneFOneB;
  Graph graph; // with messages
  GraphProblem problem;
  std::vector<PlaceProblem> places;
  size_t number = 0;  // in ordersToTry
  double seconds = 0; // of the step without a plan, which takes the least
};

// A plan of all devices: schedules, and what they need and take.
struct Candidate {
  Candidate(const OrderedStep &step, std::optional<CheckpointMode> mode)
      : step(&step), mode(mode) {}

  const OrderedStep *step;
  std::optional<CheckpointMode> mode;  // none: planned, or by a policy
  std::optional<PolicyInParts> policy; // without the plans
  std::vector<plan::PlanResult> plans; // by place
  Graph rewritten;
  StepTimes times;

  PlannedBy by() const {
    return policy ? policy->policyUsed : mode ? PlannedBy::None : PlannedBy::Budget;
  }
  int64_t arenaBytes() const {
    int64_t most = 0;
    for (const plan::PlanResult &p : plans)
      most = std::max(most, p.arenaBytes);
    return most;
  }
};

class PlanSearch {
public:
  PlanSearch(const DividedStep &step, const CompileOptions &o, const Target &target)
      : step_(step), o_(o), s_(o.stages ? *o.stages : StageOptions()), target_(target) {}

  llvm::Expected<StagedPlan> run() {
    if (llvm::Error e = findBest())
      return e;
    out_.graph = std::move(best_->rewritten);
    out_.graph.record.target = target_.name;
    out_.graph.record.policy = best_->by();
    out_.graph.record.budgetBytes = out_.budgetBytes;
    if (best_->policy) {
      for (const Remark &note : best_->policy->notes)
        o_.note(note);
      for (ValueId v : best_->policy->checkpoints)
        out_.checkpoints.push_back(best_->step->graph.valueName(v).str());
    }
    out_.order = best_->step->order;
    out_.mode = best_->mode;
    out_.added = added(*best_);
    if (out_.budgetBytes)
      out_.smallestBudgetBytes =
          std::min(least_ ? least_->arenaBytes() : INT64_MAX, best_->arenaBytes());
    return std::move(out_);
  }

  std::map<std::string, double> filled() const { return asked_.filledBy(leastOf_); }

private:
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

  // A plan with a mode for each place.
  Candidate inMode(const OrderedStep &step, CheckpointMode mode, const StageLimits &limits) {
    Candidate c(step, mode);
    for (size_t i = 0; i < step.places.size(); ++i) {
      const plan::Problem &p = step.places[i].problem;
      plan::PlanResult r;
      r.schedule = checkpointed(step.graph, step.problem, step.places[i], mode);
      r.planned = plan::evaluate(p, r.schedule);
      const int64_t limit = limits.places[i].arenaBytes;
      r.arenaBytes = arenaOf(p, r, limits.isSmallest ? 0 : limit);
      r.isWithin = r.arenaBytes <= limit;
      c.plans.push_back(std::move(r));
    }
    finishCandidate(c);
    return c;
  }

  // A fixed policy, of which each place takes what lowers its own peak.
  llvm::Expected<Candidate> byPolicy(const OrderedStep &step, const PolicyOptions &policy,
                                     const StageLimits &limits) {
    Candidate c(step, std::nullopt);
    std::vector<ProblemPart> parts;
    for (const PlaceProblem &place : step.places)
      parts.push_back({&place.problem, place.whole});
    auto found = planPolicyInParts(step.graph, step.problem, parts, policy);
    if (!found)
      return found.takeError();
    for (size_t i = 0; i < step.places.size(); ++i) {
      plan::PlanResult r;
      r.schedule = std::move(found->parts[i].schedule);
      r.planned = found->parts[i].planned;
      const int64_t limit = limits.places[i].arenaBytes;
      r.arenaBytes = arenaOf(step.places[i].problem, r, limit);
      r.isWithin = r.arenaBytes <= limit;
      c.plans.push_back(withEarlyRecomputation(step, step.places[i], std::move(r), limit));
    }
    found->parts.clear();
    c.policy = std::move(*found);
    finishCandidate(c);
    return c;
  }

  // Offsets are searched for until they suffice; for equal problems once.
  int64_t arenaOf(const plan::Problem &p, const plan::PlanResult &r, int64_t enough) {
    std::string key = keyOf(p);
    const auto *steps = reinterpret_cast<const char *>(r.schedule.data());
    key.append(steps, r.schedule.size() * sizeof(plan::OpIndex));
    const auto [known, isNew] = arenas_.try_emplace({std::move(key), enough}, 0);
    if (isNew)
      known->second =
          placeSchedule(p, r.schedule, r.planned.peakBytes, {.enough = enough}).arenaBytes;
    return known->second;
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
  Candidate planned(const OrderedStep &step, const StageLimits &limits) {
    Candidate c(step, std::nullopt);
    for (size_t number = 0; number < step.places.size(); ++number) {
      const PlaceProblem &place = step.places[number];
      const int64_t limit = limits.places[number].arenaBytes;
      plan::SearchOptions options = searchOptions(o_, out_.wasInterrupted);
      options.budgetBytes = limit;
      options.smallest = limits.isSmallest;
      const auto [known, isNew] =
          plans_.try_emplace({keyOf(place.problem), limits.isSmallest ? kSmallest : limit});
      if (isNew) {
        plan::PlanResult found = planArena(place.problem, options).plan;
        const int64_t most = limits.isSmallest ? found.arenaBytes : limit;
        known->second = withEarlyRecomputation(step, place, std::move(found), most);
      }
      c.plans.push_back(known->second);
    }
    if (llvm::all_of(c.plans, [](const plan::PlanResult &p) { return p.isWithin; }))
      finishCandidate(c);
    return c;
  }

  // The plan, with steps that recompute before waits as far as its peak does not grow and its arena
  // stays within the limit. An arena is the easier to place the less is live for longer.
  plan::PlanResult withEarlyRecomputation(const OrderedStep &step, const PlaceProblem &place,
                                          plan::PlanResult r, int64_t limit) {
    if (!r.isWithin)
      return r;
    for (double share : {1.0, 0.97, 0.93, 0.85}) {
      plan::PlanResult early = r;
      early.schedule = recomputedBeforeWaits(step.graph, step.problem, place, r.schedule,
                                             int64_t(share * double(r.planned.peakBytes)));
      if (early.schedule == r.schedule)
        break;
      early.planned = plan::evaluate(place.problem, early.schedule);
      early.arenaBytes = arenaOf(place.problem, early, limit);
      if (early.arenaBytes <= limit)
        return early;
    }
    return r;
  }

  static constexpr int64_t kSmallest = -1; // in place of a limit

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
    for (StageOrder order : ordersToTry(step_, s_)) {
      auto step = inOrder(order);
      if (!step)
        return step.takeError();
      step->number = steps_.size();
      step->seconds = simulateStep(step->graph, target_, s_.machine).seconds;
      steps_.push_back(std::move(*step));
    }
    setBaseline();
    // Then there is mostly a plan of the fastest order before the others are looked at.
    llvm::stable_sort(
        steps_, [](const OrderedStep &a, const OrderedStep &b) { return a.seconds < b.seconds; });
    asked_ = stageLimits(persistent_, o_, s_.machine, baselinePeak_);
    StageLimits limits = asked_;
    // The offsets of a device's graph are searched for once more, and may end higher than those of
    // its plan: then another candidate is taken, or it is planned within less.
    constexpr int kMostTries = 4;
    for (int i = 0; i < kMostTries && !best_; ++i) {
      fitting_.clear();
      if (llvm::Error e = findFitting(limits))
        return e;
      if (fitting_.empty())
        break;
      if (llvm::Error e = takeBest(limits))
        return e;
    }
    if (!best_ && plans() && !asked_.isSmallest && !out_.wasInterrupted)
      if (llvm::Error e = takeSmallest())
        return e;
    if (!best_)
      return notMet(asked_);
    if (o_.searches())
      out_.budgetBytes = asked_.isSmallest ? best_->arenaBytes() : asked_.largest();
    return llvm::Error::success();
  }

  // A plan of the least bytes is a candidate of each budget that it meets. So what is named as the
  // smallest budget can be met when it is given.
  llvm::Error takeSmallest() {
    StageLimits any = asked_;
    any.isSmallest = true;
    for (StageLimits::Place &p : any.places)
      p.arenaBytes = INT64_MAX;
    fitting_.clear();
    for (const OrderedStep &step : steps_)
      consider(planned(step, any), asked_);
    StageLimits limits = asked_;
    return takeBest(limits);
  }

  // Takes the best of the candidates whose programs every device has room for, as they are placed.
  // If there is none, limits become lower by what the best exceeds them.
  llvm::Error takeBest(StageLimits &limits) {
    std::optional<std::vector<int64_t>> excess; // of the best
    while (!fitting_.empty()) {
      size_t at = 0;
      for (size_t i = 1; i < fitting_.size(); ++i)
        if (isTaken(*fitting_[i], *fitting_[at]))
          at = i;
      const std::shared_ptr<Candidate> c = fitting_[at];
      fitting_.erase(fitting_.begin() + at);
      auto over = placed(*c, asked_);
      if (!over)
        return over.takeError();
      if (llvm::all_of(*over, [](int64_t bytes) { return bytes == 0; })) {
        best_ = c;
        return llvm::Error::success();
      }
      if (!excess)
        excess = std::move(*over);
    }
    for (size_t k = 0; excess && k < excess->size(); ++k)
      limits.places[k].arenaBytes -= (*excess)[k];
    return llvm::Error::success();
  }

  // Makes and places the programs of a candidate. Returns by how much the arena of each exceeds its
  // limit, and raises the candidate's arenas to those.
  llvm::Expected<std::vector<int64_t>> placed(Candidate &c, const StageLimits &limits) {
    std::vector<int64_t> excess;
    out_.programs.clear();
    for (Program &p : programsOf(c.rewritten)) {
      const size_t number = excess.size();
      const int64_t limit = limits.places[number].arenaBytes;
      auto layout = placedWithin(p.graph, target_, limit);
      if (!layout)
        return layout.takeError();
      if (const int64_t planned = c.plans[number].planned.peakBytes; layout->peakBytes != planned)
        return internalError("the plan's peak on {0} is {1} bytes, the layout's {2}", p.device,
                             planned, layout->peakBytes);
      excess.push_back(std::max<int64_t>(0, layout->arenaBytes - limit));
      c.plans[number].arenaBytes = std::max(c.plans[number].arenaBytes, layout->arenaBytes);
      out_.programs.push_back({std::move(p), std::move(*layout)});
    }
    return excess;
  }

  bool plans() const { return (o_.searches() || asked_.isTight()) && !s_.checkpoint; }

  // The candidates that every device has room for, by their plans.
  llvm::Error findFitting(const StageLimits &limits) {
    const bool isLimited = o_.searches() || limits.isTight();
    const std::vector<CheckpointMode> modes =
        s_.checkpoint       ? std::vector<CheckpointMode>{*s_.checkpoint}
        : limits.isSmallest ? std::vector<CheckpointMode>{CheckpointMode::Always}
        : isLimited ? std::vector<CheckpointMode>{CheckpointMode::Never, CheckpointMode::ExceptLast,
                                                  CheckpointMode::Always}
                    : std::vector<CheckpointMode>{CheckpointMode::Never};
    for (const OrderedStep &step : steps_) {
      if (asksForPolicy(o_)) {
        auto c = byPolicy(step, std::get<PolicyOptions>(o_.plan), limits);
        if (!c)
          return c.takeError();
        consider(std::move(*c), limits);
        continue;
      }
      for (CheckpointMode mode : modes)
        consider(inMode(step, mode, limits), limits);
      auto isSlower = [&](const std::shared_ptr<Candidate> &c) {
        return !isBetter(step.number, step.seconds, *c);
      };
      if (plans() && (limits.isSmallest || llvm::none_of(fitting_, isSlower)))
        consider(planned(step, limits), limits);
    }
    return llvm::Error::success();
  }

  // The step without a plan, in the order that is then the fastest.
  void setBaseline() {
    const OrderedStep *fastest = &steps_.front();
    for (const OrderedStep &step : steps_)
      if (step.seconds < fastest->seconds * kMuchFaster)
        fastest = &step;
    for (const Program &p : programsOf(fastest->graph))
      persistent_.push_back({p.device, persistentBytes(p.graph, target_)});
    llvm::StringSet<> known; // equal problems have one lowest peak
    for (const PlaceProblem &place : fastest->places) {
      const plan::Evaluation e = plan::evaluate(place.problem, plan::sourceOrder(place.problem));
      out_.baselinePeaks.push_back(e.peakBytes);
      baselinePeak_ = std::max(baselinePeak_, e.peakBytes);
      baselineCost_ += e.cost;
      if (known.insert(keyOf(place.problem)).second)
        out_.lowestPeak = std::max(out_.lowestPeak, plan::lowestPeak(place.problem));
    }
  }

  static std::vector<int64_t> arenasOf(const Candidate &c) {
    std::vector<int64_t> arenas;
    for (const plan::PlanResult &p : c.plans)
      arenas.push_back(p.arenaBytes);
    return arenas;
  }

  // Keeps the candidate if it is within the limit and not too dear.
  void consider(Candidate c, const StageLimits &limits) {
    const bool isWithin = llvm::all_of(c.plans, [](const auto &p) { return p.isWithin; });
    leastOf_.resize(c.plans.size(), INT64_MAX);
    for (size_t i = 0; i < c.plans.size(); ++i)
      leastOf_[i] = std::min(leastOf_[i], c.plans[i].arenaBytes);
    if (!isWithin && !c.mode)
      return;
    auto kept = std::make_shared<Candidate>(std::move(c));
    if (!least_ || kept->arenaBytes() < least_->arenaBytes())
      least_ = kept;
    if (!limits.has(arenasOf(*kept)))
      return;
    if (isTooDear(added(*kept), o_.mostAdded))
      tooDear_ = std::min(tooDear_, added(*kept));
    else
      fitting_.push_back(std::move(kept));
  }

  // Whether a candidate is taken in place of one that was found before: it is faster, or smaller
  // where that is what was asked for.
  bool isTaken(const Candidate &c, const Candidate &best) const {
    if (asked_.isSmallest)
      return std::make_pair(double(c.arenaBytes()), c.times.seconds) <
             std::make_pair(double(best.arenaBytes()), best.times.seconds);
    return isBetter(c.step->number, c.times.seconds, best);
  }

  // Whether a plan of the order, of which those come first that hold less, is better than another.
  static bool isBetter(size_t order, double seconds, const Candidate &than) {
    return order < than.step->number ? seconds * kMuchFaster <= than.times.seconds
                                     : seconds < than.times.seconds * kMuchFaster;
  }

  double added(const Candidate &c) const {
    double cost = 0;
    for (const plan::PlanResult &p : c.plans)
      cost += p.planned.cost;
    return plan::overhead(cost, baselineCost_);
  }

  llvm::Error notMet(const StageLimits &limits) {
    Figures f;
    f.hasPlan = false;
    f.predictedPeakBytes = f.baselinePeakBytes = baselinePeak_;
    if (least_) { // as its programs are placed
      auto over = placed(*least_, limits);
      if (!over)
        return over.takeError();
      f.smallestBudgetBytes = least_->arenaBytes();
    }
    f.lowerBoundBytes = out_.lowestPeak;
    if (out_.wasInterrupted)
      return interruptedBefore(f, limits.largest());
    if (!best_ && tooDear_ < HUGE_VAL) {
      f.recomputeOverhead = tooDear_;
      return checkAdded(f, o_.mostAdded);
    }
    if (llvm::Error e = memoryNotMet(limits, leastOf_, f))
      return e;
    return budgetNotMetAt(f, limits.largest(), o_.mostAdded);
  }

  const DividedStep &step_;
  const CompileOptions &o_;
  const StageOptions s_;
  const Target &target_;
  std::vector<OrderedStep> steps_;
  std::vector<std::pair<std::string, int64_t>> persistent_; // by place: device, bytes always there
  int64_t baselinePeak_ = 0;
  double baselineCost_ = 0; // microseconds
  // By the keys of problems, or of problems and schedules, and by limits.
  std::map<std::pair<std::string, int64_t>, plan::PlanResult> plans_;
  std::map<std::pair<std::string, int64_t>, int64_t> arenas_;
  std::vector<std::shared_ptr<Candidate>> fitting_;
  std::shared_ptr<Candidate> best_, least_; // least_: that with the smallest of the largest arenas
  StageLimits asked_;
  std::vector<int64_t> leastOf_; // by place, the smallest arena of the candidates
  double tooDear_ = HUGE_VAL;    // what the cheapest candidate adds that has room, but is too dear
  StagedPlan out_;
};

} // namespace

llvm::Expected<StagedPlan> findStagedPlan(const DividedStep &step, const CompileOptions &o,
                                          const Target &target,
                                          std::map<std::string, double> &filled) {
  PlanSearch search(step, o, target);
  auto plan = search.run();
  filled = search.filled();
  return plan;
}

} // namespace isthmus
