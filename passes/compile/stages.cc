#include "passes/compile/stages.h"

#include "ir/place.h"
#include "passes/compile/planning.h"
#include "passes/compile/sampled_figures.h"
#include "passes/compile/stage_figures.h"
#include "passes/compile/staged_plan.h"
#include "passes/place/place.h"
#include "passes/rebuild.h"
#include "passes/rewrite/original.h"
#include "passes/simplify/dce.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>

namespace isthmus {

bool hasStages(const Graph &g, const CompileOptions &o) { return o.stages || !Places(g).isOne(); }

namespace {

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
    noteLostPlan(given_, o_);
    out_.original = withoutDeadNodes(originalOf(given_));
    if (isOnlySimulated(out_.original, o_)) {
      auto figures = fitting(
          [&](CutAgain &again) { return sampledFigures(out_.original, o_, target_, again); });
      if (!figures)
        return figures.takeError();
      if (*figures) {
        out_.figures = std::move(**figures);
        return finish();
      }
    }
    auto plan = fitting([&](CutAgain &again) -> llvm::Expected<StagedPlan> {
      auto divided = dividedStep(out_.original, o_, target_, again);
      if (!divided)
        return divided.takeError();
      step_ = std::move(*divided);
      return findStagedPlan(step_, o_, target_, again.filled);
    });
    if (!plan)
      return plan.takeError();
    return planned(std::move(*plan));
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
    if (asksForPolicy(o_) && (s_.stages > 0 || s_.checkpoint))
      return addRemedy(addRemedy(makeError("a fixed policy chooses what the devices that a file "
                                           "names keep, and not what the stages of a request do"),
                                 {"checkpoint", "always", "recompute in every micro-batch"}),
                       {"budget", "", "plan within the bytes of each device"});
    return llvm::Error::success();
  }

  bool keepsGiven() const {
    return hasMessages(given_) && std::holds_alternative<AsItIs>(o_.plan) && !o_.memoryLimitBytes &&
           o_.microBatches < 2 && (!o_.stages || asksForDevicesAlone());
  }

  // Whether the request says no more than on which devices the given stages run.
  bool asksForDevicesAlone() const {
    const size_t count = s_.machine.devices().size();
    return count == Places(given_).count() && (s_.stages == 0 || s_.stages == count) &&
           s_.shares.empty() && s_.ends.empty() && !s_.order && !s_.checkpoint;
  }

  // Moves the given stages to the devices of the request, unless they are those.
  void moveToDevices() {
    const Places places(given_);
    const std::vector<Machine::Device> &devices = s_.machine.devices();
    if (devices.empty() || llvm::all_of(devices, [&](const Machine::Device &d) {
          return places.find(d.name).has_value();
        }))
      return;
    for (uint32_t i = 0; i < given_.numNodes(); ++i) {
      Node &n = given_.editNode(NodeId(i));
      n.device = devices[places.of(NodeId(i))].name;
      if (!n.op->isMessage())
        continue;
      const char *end = n.op->is(kSend) ? "to" : "from";
      if (const auto place = places.find(n.attrs.getString(end)))
        n.attrs.set(end, devices[*place].name);
    }
  }

  // --- A cut that fits the devices' memory

  // Runs `plan`. If the memory of devices does not suffice, the stages there become smaller, as far
  // as others can become larger.
  template <typename Plan>
  auto fitting(Plan plan) const -> decltype(plan(std::declval<CutAgain &>())) {
    constexpr int kMostTries = 6;
    CutAgain again;
    auto first = plan(again);
    if (first || !s_.shares.empty() || !s_.ends.empty())
      return first;
    llvm::Error why = first.takeError();
    for (int i = 1; i < kMostTries && again.tighten(); ++i) {
      auto next = plan(again);
      if (next) {
        llvm::consumeError(std::move(why));
        o_.note("devices whose memory would not suffice have smaller stages than their speed says");
        return next;
      }
      llvm::consumeError(next.takeError());
    }
    return why;
  }

  // --- The result

  // Keeps a graph that was planned over devices.
  llvm::Expected<Compiled> asItIs() {
    moveToDevices();
    out_.original = withoutDeadNodes(originalOf(given_));
    out_.graph = std::move(given_);
    out_.figures.policyUsed = out_.graph.record.policy;
    std::vector<int64_t> baselinePeaks;
    double baselineCost = 0, cost = 0;
    const Graph plain = withoutClones(out_.graph);
    for (bool isPlain : {true, false}) {
      const Graph &g = isPlain ? plain : out_.graph;
      auto problem = extractProblem(g, target_);
      if (!problem)
        return problem.takeError();
      for (const PlaceProblem &place : placeProblems(g, *problem, Places(g))) {
        const plan::Evaluation e = plan::evaluate(place.problem, plan::sourceOrder(place.problem));
        (isPlain ? baselineCost : cost) += e.cost;
        if (isPlain)
          baselinePeaks.push_back(e.peakBytes);
      }
    }
    for (Program &p : programsOf(out_.graph)) {
      auto layout = placedWithin(p.graph, target_, out_.graph.record.budgetBytes);
      if (!layout)
        return layout.takeError();
      out_.programs.push_back({std::move(p), std::move(*layout)});
    }
    setFigures(baselinePeaks, plan::overhead(cost, baselineCost));
    if (llvm::Error e = checkRecord(out_.graph.record, out_.figures, o_, target_))
      return e;
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

  // Takes the plan that was found.
  llvm::Expected<Compiled> planned(StagedPlan plan) {
    out_.graph = std::move(plan.graph);
    out_.original = originalOf(out_.graph);
    out_.programs = std::move(plan.programs);
    out_.budgetBytes = plan.budgetBytes;
    out_.wasInterrupted = plan.wasInterrupted;
    Figures &f = out_.figures;
    f.lowerBoundBytes = plan.lowestPeak;
    f.smallestBudgetBytes = plan.smallestBudgetBytes;
    f.policyUsed = out_.graph.record.policy;
    setCheckpoint(f, plan.order, plan.mode);
    if (asksForPolicy(o_)) {
      f.checkpoint = plannedByText(f.policyUsed).str();
      f.checkpoints = std::move(plan.checkpoints);
    }
    setCut(f, step_);
    setFigures(plan.baselinePeaks, plan.added);
    return finish();
  }

  // Those of the programs, with the baseline peaks of their places.
  void setFigures(const std::vector<int64_t> &baselinePeaks, double added) {
    Figures &f = out_.figures;
    for (const CompiledProgram &p : out_.programs) {
      StageFigures s;
      s.device = p.device;
      s.baselinePeakBytes = baselinePeaks[f.stages.size()];
      s.predictedPeakBytes = p.layout.peakBytes;
      s.arenaBytes = p.layout.arenaBytes;
      s.nodes = p.graph.numNodes();
      f.hostBytes += p.layout.hostBytes;
      setInputsAndOutputs(s, p.graph, target_);
      f.stages.push_back(s);
    }
    setLargest(f);
    setTimes(f, simulateStep(out_.graph, target_, s_.machine));
    f.recomputeOverhead = added;
    countNodes(f, out_.graph);
    out_.layout.peakBytes = f.predictedPeakBytes;
    out_.layout.arenaBytes = f.arenaBytes;
  }

  llvm::Expected<Compiled> finish() {
    Figures &f = out_.figures;
    f.mode = modeText(out_.original).str();
    f.costs = target_.measured ? "measured" : "estimated";
    f.lowerBoundOverhead = f.recomputeOverhead > 0 ? std::optional<double>() : 0;
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
  Compiled out_;
};

} // namespace

llvm::Expected<Compiled> plannedInStages(Graph given, const CompileOptions &o,
                                         const Target &target) {
  CompileOptions counted = o;
  if (o.stages && o.stages->stages == 0 && Places(given).isOne() &&
      o.stages->machine.devices().size() > 1) // a stage for each device that is named
    counted.stages->stages = uint32_t(o.stages->machine.devices().size());
  return StagedPlanning(std::move(given), counted, target).run();
}

} // namespace isthmus
