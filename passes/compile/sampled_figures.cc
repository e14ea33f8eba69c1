#include "passes/compile/sampled_figures.h"

#include "ir/place.h"
#include "passes/compile/planning.h"
#include "passes/compile/stage_figures.h"
#include "passes/compile/stage_limits.h"
#include "passes/compile/staged_plan.h"
#include "passes/stages/checkpoint_mode.h"
#include "passes/stages/messages.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace isthmus {

bool isOnlySimulated(const Graph &original, const CompileOptions &o) {
  if (o.searches() || !o.stages || o.stages->stages < 2)
    return false;
  return int64_t(original.numNodes()) * numMicroBatches(original, o, o.stages->stages) >
         o.mostNodes;
}

namespace {

constexpr CheckpointMode kModes[] = {CheckpointMode::Never, CheckpointMode::ExceptLast,
                                     CheckpointMode::Always}; // by falling bytes

// The step in one order, by its sample.
struct OrderedSample {
  StageOrder order = StageOrder::OneFOneB;
  Graph graph; // with messages
  GraphProblem problem;
  std::vector<PlaceProblem> places;
  OrderedGraph ordered;
  SampledGraph sampled;
  RepeatedTasks tasks;
  std::vector<PlaceSteps> steps[std::size(kModes)]; // by mode and place; as far as asked for
  RepeatedFigures figures[std::size(kModes)];       // all places in one mode
};

// What one order and mode come to.
struct Choice {
  StageOrder order = StageOrder::OneFOneB;
  CheckpointMode mode = CheckpointMode::Never;
  RepeatedFigures figures;
};

class Sampling {
public:
  Sampling(const CompileOptions &o, const Target &target, CutAgain &again)
      : o_(o), s_(*o.stages), target_(target), again_(again) {}

  llvm::Expected<std::optional<Figures>> run(const Graph &original) {
    auto step = dividedStep(original, o_, target_, again_, /*isSampled=*/true);
    if (!step)
      return step.takeError();
    step_ = std::move(*step);
    if (step_.batches.count < 2)
      return std::nullopt;
    for (StageOrder order : ordersToTry(step_, s_)) {
      auto isDone = tryOrder(order);
      if (!isDone)
        return isDone.takeError();
      if (!*isDone)
        return std::nullopt;
    }
    if (!best_)
      return notMet();
    return figures();
  }

private:
  // False if the sample does not tell what the step does.
  llvm::Expected<bool> tryOrder(StageOrder order) {
    OrderedSample s;
    if (llvm::Error e = setUp(s, order))
      return e;
    auto tasks = repeated(s.ordered.tasks, step_.batches, order, uint32_t(step_.devices.size()));
    if (!tasks)
      return false;
    s.tasks = std::move(*tasks);
    if (persistent_.empty())
      findPrograms(s.graph);
    const CheckpointMode last = lastMode();
    for (CheckpointMode mode : kModes) {
      if (size_t(last) > size_t(mode)) // they are numbered from the one that recomputes most
        break;
      if (!addMode(s, mode))
        return false;
      if (mode == CheckpointMode::Never)
        noteBaseline(s);
      if (s_.checkpoint && *s_.checkpoint != mode)
        continue;
      if (consider(s, mode)) // to recompute more takes longer
        break;
    }
    return true;
  }

  // The mode that recomputes most of those to try.
  CheckpointMode lastMode() const {
    if (s_.checkpoint)
      return *s_.checkpoint;
    return limits_.isTight() ? CheckpointMode::Always : CheckpointMode::Never;
  }

  llvm::Error setUp(OrderedSample &s, StageOrder order) const {
    OrderOptions options;
    options.order = s.order = order;
    options.devices = step_.devices;
    options.machine = s_.machine;
    s.ordered = inPipelineOrder(step_.graph, step_.stageOf, target_, options);
    for (uint32_t i = 0; i < s.ordered.graph.numNodes(); ++i)
      s.ordered.graph.editNode(NodeId(i)).device = step_.deviceOf(s.ordered.stageOf[i]);
    s.graph = withMessages(s.ordered.graph);
    auto problem = extractProblem(s.graph, target_, Ways());
    if (!problem)
      return problem.takeError();
    s.problem = std::move(*problem);
    s.places = placeProblems(s.graph, s.problem, Places(s.graph));
    s.sampled.graph = &s.graph;
    s.sampled.problem = &s.problem;
    s.sampled.places = &s.places;
    s.sampled.tasks = &s.ordered.tasks;
    s.sampled.batches = &step_.batches;
    size_t next = 0; // messages stand between the nodes, whose order is the same
    for (uint32_t i = 0; i < s.graph.numNodes(); ++i)
      s.sampled.taskOf.push_back(s.graph.node(NodeId(i)).is(StandIn::Transfer)
                                     ? OrderedGraph::kNoTask
                                     : s.ordered.taskOf[next++]);
    s.sampled.findPlaces();
    return llvm::Error::success();
  }

  // What every device has and gives, in each order.
  void findPrograms(const Graph &g) {
    for (const Program &p : programsOf(g)) {
      StageFigures f;
      f.device = p.device;
      setInputsAndOutputs(f, p.graph, target_);
      persistent_.push_back({f.device, f.persistentBytes});
      programs_.push_back(f);
    }
    limits_ = stageLimits(persistent_, o_, s_.machine, 0);
    leastOf_.assign(persistent_.size(), INT64_MAX);
  }

  bool addMode(OrderedSample &s, CheckpointMode mode) const {
    const std::optional<uint32_t> last = lastMicroBatch(s.graph);
    s.steps[size_t(mode)].reserve(s.places.size());
    for (uint32_t p = 0; p < s.places.size(); ++p) {
      auto steps = stepsOf(s.sampled, p,
                           inCheckpointMode(s.graph, s.problem, s.places[p], mode, last), target_);
      if (!steps)
        return false;
      s.steps[size_t(mode)].push_back(std::move(*steps));
    }
    s.figures[size_t(mode)] = simulate(s, std::vector<CheckpointMode>(s.places.size(), mode));
    return true;
  }

  RepeatedFigures simulate(const OrderedSample &s, const std::vector<CheckpointMode> &modes) const {
    std::vector<const PlaceSteps *> places;
    for (size_t p = 0; p < modes.size(); ++p)
      places.push_back(&s.steps[size_t(modes[p])][p]);
    return simulateRepeated(s.sampled, s.tasks, places, s_.machine);
  }

  void noteBaseline(const OrderedSample &s) {
    const RepeatedFigures &f = s.figures[size_t(CheckpointMode::Never)];
    if (baseline_ && f.times.seconds >= baseline_->times.seconds * kMuchFaster)
      return;
    baseline_ = f;
  }

  // Each place recomputes as the mode says, where that needs fewer bytes than to recompute less.
  // Returns whether all places have room.
  bool consider(const OrderedSample &s, CheckpointMode mode) {
    std::vector<CheckpointMode> modes(s.places.size(), CheckpointMode::Never);
    for (size_t p = 0; p < modes.size(); ++p)
      for (CheckpointMode m : kModes)
        if (m >= mode && s.figures[size_t(m)].peaks[p] < s.figures[size_t(modes[p])].peaks[p])
          modes[p] = m;
    const bool isAlike = llvm::all_of(modes, [&](CheckpointMode m) { return m == mode; });
    Choice c{s.order, mode, isAlike ? s.figures[size_t(mode)] : simulate(s, modes)};
    for (size_t p = 0; p < modes.size(); ++p)
      leastOf_[p] = std::min(leastOf_[p], c.figures.peaks[p]);
    if (!limits_.has(c.figures.peaks))
      return false;
    if (const double added = plan::overhead(c.figures.cost, baseline_->cost);
        isTooDear(added, o_.mostAdded)) {
      tooDear_ = std::min(tooDear_, added);
      return true;
    }
    if (!best_ || c.figures.times.seconds < best_->figures.times.seconds * kMuchFaster)
      best_ = std::move(c);
    return true;
  }

  llvm::Error notMet() const {
    again_.filled = limits_.filledBy(leastOf_);
    Figures f;
    f.hasPlan = false;
    for (size_t p = 0; p < leastOf_.size(); ++p) {
      f.baselinePeakBytes = std::max(f.baselinePeakBytes, baseline_->peaks[p]);
      f.smallestBudgetBytes = std::max(f.smallestBudgetBytes.value_or(0), leastOf_[p]);
    }
    f.predictedPeakBytes = f.baselinePeakBytes;
    f.lowerBoundBytes = 0; // nothing is proven of a step that is not built
    if (tooDear_ < HUGE_VAL) {
      f.recomputeOverhead = tooDear_;
      return checkAdded(f, o_.mostAdded);
    }
    if (llvm::Error e = memoryNotMet(limits_, leastOf_, f))
      return e;
    return budgetNotMetAt(f, limits_.largest(), o_.mostAdded);
  }

  Figures figures() const {
    const RepeatedFigures &r = best_->figures;
    Figures f;
    f.stages = programs_;
    for (size_t p = 0; p < f.stages.size(); ++p) {
      f.stages[p].baselinePeakBytes = baseline_->peaks[p];
      f.stages[p].predictedPeakBytes = f.stages[p].arenaBytes = r.peaks[p];
      f.stages[p].nodes = r.nodesOf[p];
    }
    setLargest(f);
    setTimes(f, r.times);
    setCut(f, step_);
    setCheckpoint(f, best_->order, best_->mode);
    f.recomputeOverhead = plan::overhead(r.cost, baseline_->cost);
    f.nodes = r.nodes;
    f.clones = r.clones;
    f.messages = r.messages;
    f.policyUsed = PlannedBy::None;
    return f;
  }

  const CompileOptions &o_;
  const StageOptions &s_;
  const Target &target_;
  CutAgain &again_;
  DividedStep step_;
  std::vector<std::pair<std::string, int64_t>> persistent_; // by place: device, bytes always there
  std::vector<StageFigures> programs_;                      // by place
  StageLimits limits_;
  std::vector<int64_t> leastOf_; // by place, the lowest peak of the choices
  double tooDear_ = HUGE_VAL;    // what the cheapest choice adds that has room, but is too dear
  std::optional<RepeatedFigures> baseline_;
  std::optional<Choice> best_;
};

} // namespace

llvm::Expected<std::optional<Figures>> sampledFigures(const Graph &original,
                                                      const CompileOptions &o, const Target &target,
                                                      CutAgain &again) {
  return Sampling(o, target, again).run(original);
}

} // namespace isthmus
