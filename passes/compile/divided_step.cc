#include "passes/compile/divided_step.h"

#include "ir/check.h"
#include "ir/ops/averages.h"
#include "ir/place.h"
#include "passes/chunk/chunk.h"
#include "passes/chunk/request.h"
#include "passes/chunk/whole_node.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

namespace isthmus {
namespace {

// The error's one message, after `before`, with its remedies.
Remark asRemark(std::string before, llvm::Error e) {
  Remark remark(std::move(before));
  llvm::handleAllErrors(std::move(e), [&](const DiagError &d) {
    remark.text += d.diags.front().message;
    remark.remedies = d.diags.front().remedies;
  });
  return remark;
}

// The stage of a node until it has a device.
std::string stageName(uint32_t stage) { return "stage:" + std::to_string(stage); }

class Division {
public:
  Division(const Graph &original, const CompileOptions &o, const Target &target, CutAgain &again,
           bool isSampled)
      : o_(o), s_(o.stages ? *o.stages : StageOptions()), target_(target), again_(again),
        isSampled_(isSampled), original_(original) {}

  llvm::Expected<DividedStep> run() {
    // The form that a file of the step keeps: planned anew from the file, it is cut as before.
    if (numMicroBatches(original_, o_, s_.stages) > 1)
      original_ = withUnreducedLosses(original_);
    if (llvm::Error e = assignStages())
      return e;
    if (llvm::Error e = cutIntoMicroBatches())
      return e;
    return std::move(out_);
  }

private:
  std::vector<std::string> given() const {
    std::vector<std::string> names;
    for (const Machine::Device &d : s_.machine.devices())
      names.push_back(d.name);
    return names;
  }

  // By stage, of its device.
  std::vector<double> speeds() const {
    std::vector<double> speeds;
    for (uint32_t s = 0; s < s_.stages && !s_.machine.devices().empty(); ++s)
      speeds.push_back(s_.machine.devices()[s % s_.machine.devices().size()].speed);
    return speeds;
  }

  // Gives each node of the original its stage.
  llvm::Error assignStages() {
    const Graph &g = original_;
    if (s_.stages == 0) { // by the devices in the file
      const Places places(g);
      out_.numStages = uint32_t(places.count());
      out_.devices = s_.machine.devices().empty() ? places.names() : given();
      for (uint32_t i = 0; i < g.numNodes(); ++i)
        out_.stageOf.push_back(places.of(NodeId(i)));
    } else {
      CutOptions options;
      options.stages = out_.numStages = s_.stages;
      options.speeds = speeds();
      options.shares = s_.shares;
      options.most = again_.most;
      options.ends = s_.ends;
      auto cut = cutIntoStages(g, target_, options);
      if (!cut)
        return cut.takeError();
      out_.stageOf = cut->stageOf;
      out_.cut = std::move(*cut);
      out_.devices = given();
      for (uint32_t s = 0; s < out_.numStages && s_.machine.devices().empty(); ++s)
        out_.devices.push_back(target_.deviceKind + ":" + std::to_string(s));
    }
    again_.last = out_.cut.value_or(Cut());
    again_.lastDevices = out_.devices;
    again_.filled.clear();
    if (out_.devices.size() > out_.numStages)
      return makeError("{0} devices were given for {1} stages; expected as many, or fewer, which "
                       "then have several stages each",
                       out_.devices.size(), out_.numStages);
    if (s_.stages == 0 && out_.devices.size() != out_.numStages)
      return makeError("the graph's nodes are on {0} devices, and {1} were given in their place",
                       out_.numStages, out_.devices.size());
    return llvm::Error::success();
  }

  llvm::Error cutIntoMicroBatches() {
    Graph g = original_;
    auto setDevices = [&](auto nameOf) {
      for (uint32_t i = 0; i < g.numNodes(); ++i)
        g.editNode(NodeId(i)).device = nameOf(i);
    };
    setDevices([&](uint32_t i) { return stageName(out_.stageOf[i]); });
    const int64_t number = numMicroBatches(original_, o_, out_.numStages);
    if (number > 1) {
      if (const auto remark = batchRemark(g, o_.batch);
          remark && !isSampled_ && again_.most.empty())
        o_.note(*remark);
      const BatchSample sample(examplesOf(g, o_.batch), number);
      auto cut = inMicroBatches(g, number, o_.batch,
                                isSampled_ ? llvm::makeArrayRef(sample.numbers)
                                           : llvm::ArrayRef<int64_t>());
      if (llvm::Error e = !cut                 ? cut.takeError()
                          : out_.numStages > 1 ? checkWhatIsWhole(*cut)
                                               : llvm::Error::success()) {
        if (o_.microBatches > 1)
          return e;
        o_.note(asRemark("the stages run one after the other: ", std::move(e)));
      } else {
        g = std::move(*cut);
        out_.batches = sample;
        if (o_.microBatches < 2 && again_.most.empty())
          o_.note("the step runs in " + std::to_string(number) + " micro-batches (--microbatches)");
      }
    }
    out_.stageOf.clear();
    for (uint32_t i = 0; i < g.numNodes(); ++i) {
      uint32_t stage = 0;
      llvm::StringRef name = g.node(NodeId(i)).device;
      ISTHMUS_CHECK(name.consume_front("stage:") && !name.getAsInteger(10, stage),
                    "a node of a micro-batch has no stage");
      out_.stageOf.push_back(stage);
    }
    // What runs is known by its stage; what chunks replace stands where its chunks do.
    for (size_t i = 0; i < g.numReplaced(); ++i) {
      uint32_t stage = 0;
      llvm::StringRef name = g.node(g.replaced(i)).device;
      if (name.consume_front("stage:") && !name.getAsInteger(10, stage))
        g.editNode(g.replaced(i)).device = out_.deviceOf(stage);
    }
    out_.graph = std::move(g);
    return llvm::Error::success();
  }

  // A node that needs the whole batch makes all micro-batches wait for it. In the last stage, or
  // where none goes on forward behind it, that is the order of gpipe. In the middle it would make
  // the stages run one after the other.
  llvm::Error checkWhatIsWhole(const Graph &g) {
    const std::vector<WholeNode> all = wholeNodes(g);
    const auto middle = llvm::find_if(all, [&](const WholeNode &w) {
      return w.isBeforeForward && g.node(w.node).device != stageName(out_.numStages - 1);
    });
    auto needs = [&](NodeId id) {
      return llvm::formatv("'{0}' ({1}) needs the whole batch, so ", g.nodeName(id),
                           g.node(id).op->name)
          .str();
    };
    if (middle != all.end()) {
      const Node &n = g.node(middle->node);
      llvm::Error e = locate(makeError("{0}the micro-batches of the stages would all wait for it",
                                       needs(middle->node)),
                             g.whereIs(middle->node));
      if (!takesBatchStatistics(*n.op, n.attrs))
        return e;
      return addRemedy(std::move(e),
                       {"batch-norm", "micro", "take the statistics of each micro-batch"});
    }
    if (all.empty())
      return llvm::Error::success();
    const NodeId first = all.front().node;
    if (s_.order && *s_.order != StageOrder::GPipe)
      return addRemedy(
          locate(makeError("{0}all micro-batches run forward before any runs backward, "
                           "and the order {1} would not have it so",
                           needs(first), stageOrderName(*s_.order)),
                 g.whereIs(first)),
          {"schedule", "gpipe", "run all forward first"});
    out_.waitsForAll = true;
    if (again_.most.empty() && !isSampled_)
      o_.note(needs(first) + "all micro-batches run forward before any runs backward, as with " +
              "--schedule=gpipe, and its stage holds them all");
    return llvm::Error::success();
  }

  const CompileOptions &o_;
  const StageOptions s_;
  const Target &target_;
  CutAgain &again_;
  const bool isSampled_;
  Graph original_;
  DividedStep out_;
};

} // namespace

llvm::Expected<DividedStep> dividedStep(const Graph &original, const CompileOptions &o,
                                        const Target &target, CutAgain &again, bool isSampled) {
  return Division(original, o, target, again, isSampled).run();
}

bool CutAgain::tighten() {
  bool isTighter = false;
  if (!last.keepsLimits)
    return false;
  most.resize(last.seconds.size(), std::numeric_limits<double>::infinity());
  for (size_t s = 0; s < most.size(); ++s)
    if (const auto it = filled.find(lastDevices[s % lastDevices.size()]);
        it != filled.end() && it->second > 1) {
      constexpr double kSpare = 0.98; // bytes are not quite proportional to costs
      most[s] = std::min(most[s], kSpare * last.seconds[s] / it->second);
      isTighter = true;
    }
  return isTighter;
}

// As many as asked for; else four for each stage, if there are so many examples.
int64_t numMicroBatches(const Graph &original, const CompileOptions &o, uint32_t numStages) {
  if (o.microBatches > 0 || numStages < 2 || !o.stages)
    return o.microBatches;
  return std::min<int64_t>(4 * numStages, examplesOf(original, o.batch));
}

} // namespace isthmus
