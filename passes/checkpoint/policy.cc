#include "passes/checkpoint/policy.h"

#include "ir/check.h"
#include "ir/loss_value.h"
#include "passes/checkpoint/forward_part.h"
#include "passes/checkpoint/frontier.h"
#include "passes/names.h"
#include "passes/rewrite/original.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kNames[] = {"none", "speed", "memory", "collection"};

class Planner {
public:
  Planner(const Graph &g, const GraphProblem &p, llvm::ArrayRef<ProblemPart> parts,
          const PolicyOptions &o)
      : g_(g), o_(o), roots_(storageRoots(g)), isForward_(forwardPart(g)),
        choices_(g, p, parts, isForward_) {}

  llvm::Expected<PolicyInParts> run() {
    if (llvm::Error e = choices_.scoreBaseline())
      return e;
    result_.policyUsed = plannedBy(o_.policy);
    if (o_.policy == Policy::None)
      return concluded();
    if (!g_.hasBackward())
      return addRemedy(makeError("a policy needs a graph with a backward pass"),
                       {"loss", "", "give the loss"});

    auto chosen = choose();
    if (!chosen)
      return chosen.takeError();
    Ends ends;
    const std::vector<ValueId> kept = withoutEnds(*chosen, ends);
    if (o_.policy != Policy::Memory && kept.empty())
      return addRemedy(makeError("no checkpoints are left: expected values that the forward part "
                                 "makes and that it may free, got {0}",
                                 ends.text()),
                       {"checkpoints", "", "name others"});
    noteEnds(ends);
    if (kept.empty())
      noteNoBottleneck();
    else if (llvm::Error e = consider(kept, plannedBy(o_.policy)))
      return e;
    if (o_.policy == Policy::Memory)
      if (llvm::Error e = considerFrontiers(/*hadBottlenecks=*/!kept.empty()))
        return e;
    choices_.addFree();
    noteGain();
    return concluded();
  }

private:
  void note(Remark remark) { result_.notes.push_back(std::move(remark)); }

  llvm::Expected<std::vector<ValueId>> choose() {
    if (o_.policy == Policy::Speed)
      return contractions();
    if (o_.policy == Policy::Memory)
      return someBottlenecks();
    if (o_.checkpoints.empty())
      return marked();
    auto named = matchValues(g_, o_.checkpoints);
    if (!named)
      return named.takeError();
    return withChunks(*named);
  }

  // In place of values that chunks replace, what the chunks make of them.
  std::vector<ValueId> withChunks(const std::vector<ValueId> &values) const {
    llvm::DenseSet<ValueId> replaced;
    std::vector<ValueId> out;
    for (ValueId v : values)
      if (Graph::isReplaced(g_.value(v).def))
        replaced.insert(v);
      else
        out.push_back(v);
    for (uint32_t i = 0; i < g_.numNodes() && !replaced.empty(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (!n.is(StandIn::Chunk) || !Graph::isReplaced(g_.value(n.from.restores).def))
        continue;
      const Node &original = g_.node(g_.value(n.from.restores).def);
      for (uint32_t r = 0; r < std::min(n.numResults, original.numResults); ++r)
        if (replaced.count(original.result(r)))
          out.push_back(n.result(r));
    }
    llvm::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  bool isForwardResult(ValueId v) const {
    NodeId def = g_.value(v).def;
    return def && !Graph::isReplaced(def) && isForward_[def.index];
  }

  llvm::Expected<std::vector<ValueId>> contractions() const {
    std::vector<ValueId> out;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (const Node &n = g_.node(NodeId(i)); n.op->is(kContraction) && isForward_[i])
        for (uint32_t r = 0; r < n.numResults; ++r) // spares attention a second run
          out.push_back(n.result(r));
    if (out.empty())
      return addRemedy(addRemedy(makeError("policy 'speed' found no convolution or matrix product"),
                                 {"policy", "memory", "keep bottlenecks"}),
                       {"checkpoints", "", "name checkpoints"});
    return out;
  }

  llvm::Expected<std::vector<ValueId>> marked() const {
    std::vector<ValueId> out;
    auto add = [&](NodeId id) {
      if (const Node &n = g_.node(id); n.hasMark(kCheckpointMark))
        for (uint32_t r = 0; r < n.numResults; ++r)
          out.push_back(n.result(r));
    };
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      add(NodeId(i));
    for (size_t i = 0; i < g_.numReplaced(); ++i)
      add(g_.replaced(i));
    if (out.empty())
      return addRemedy(makeError("policy 'collection' found no node marked #checkpoint"),
                       {"checkpoints", "", "name some"});
    return withChunks(out);
  }

  // Chunks lie beside one another, so the bottlenecks are those of the graph before it was divided.
  std::vector<ValueId> someBottlenecks() {
    const Graph &whole = undivided();
    bottlenecks_ = chooseBottlenecks(whole, storageRoots(whole), o_.smallestCheckpoint);
    return divided(bottlenecks_.taken());
  }

  const Graph &undivided() {
    if (!g_.numReplaced() && !g_.isRewritten())
      return g_;
    if (!undivided_)
      undivided_ = originalOf(g_);
    return *undivided_;
  }

  // What stands in this graph for values of `undivided()`.
  std::vector<ValueId> divided(const std::vector<ValueId> &values) const {
    if (!undivided_)
      return values;
    std::vector<ValueId> out;
    for (ValueId v : values)
      if (ValueId here = g_.find(undivided_->valueName(v)))
        out.push_back(here);
    return withChunks(out);
  }

  // Values that cannot be checkpoints, by number.
  struct Ends {
    size_t inputs = 0, outputs = 0, later = 0;

    std::string text() const {
      std::vector<std::string> parts;
      auto add = [&](size_t count, const char *one, const char *many) {
        if (count)
          parts.push_back(std::to_string(count) + (count == 1 ? one : many));
      };
      add(inputs, " graph input", " graph inputs");
      add(outputs, " output", " outputs");
      add(later, " value of the backward part", " values of the backward part");
      return llvm::join(parts, ", ");
    }
  };

  // Removes inputs and outputs, which are live in any case, and values that the forward part does
  // not make.
  std::vector<ValueId> withoutEnds(const std::vector<ValueId> &chosen, Ends &ends) const {
    std::vector<ValueId> out;
    const llvm::DenseSet<ValueId> all(g_.outputs().begin(), g_.outputs().end());
    ValueId loss = lossOf(g_);
    for (ValueId v : chosen) {
      if (!g_.value(roots_[v.index]).def)
        ++ends.inputs;
      else if (v == loss || all.count(v))
        ++ends.outputs;
      else if (!isForwardResult(v))
        ++ends.later;
      else
        out.push_back(v);
    }
    return out;
  }

  void noteEnds(const Ends &ends) {
    if (ends.inputs)
      note(std::to_string(ends.inputs) +
           " of the checkpoints are graph inputs, which are always live; left out");
    if (ends.outputs)
      note(std::to_string(ends.outputs) +
           " of the checkpoints are outputs, which are live to the end in any case; left out");
    if (ends.later)
      note(std::to_string(ends.later) +
           " of the checkpoints are not made by the forward part; left out");
  }

  // Tells why no bottleneck is kept.
  void noteNoBottleneck() {
    const Graph &whole = undivided();
    size_t all = 0, small = 0;
    for (const BottleneckChoice::Candidate &c : bottlenecks_.candidates) {
      if (c.value == lossOf(whole) || llvm::is_contained(whole.outputs(), c.value))
        continue;
      ++all;
      small += c.decision == BottleneckChoice::Decision::Small;
    }
    const char *instead = "; segments that keep their whole frontier are tried";
    if (all == 0)
      return note(std::string("no bottleneck was found: every value has a path around it") +
                  instead);
    if (small == 0)
      return note("none of the " + std::to_string(all) +
                  " bottlenecks is kept: they are made by losses, norms, dropout or casts" +
                  instead);
    const std::string limit = "fewer than " + std::to_string(o_.smallestCheckpoint) + " elements";
    note({small == all ? "none of the " + std::to_string(all) + " bottlenecks is kept: all have " +
                             limit + instead
                       : "none of the " + std::to_string(all) +
                             " bottlenecks is kept: " + std::to_string(small) + " have " + limit +
                             ", and losses, norms, dropout or casts make the others" + instead,
          {"smallest-checkpoint", "1", "take small ones too"}});
  }

  llvm::Error consider(const std::vector<ValueId> &kept, PlannedBy name) {
    auto isBest = choices_.isBest(kept);
    if (!isBest)
      return isBest.takeError();
    if (*isBest) {
      result_.checkpoints = kept;
      result_.policyUsed = name;
    }
    return llvm::Error::success();
  }

  llvm::Error considerFrontiers(bool hadBottlenecks) {
    for (const std::vector<ValueId> &kept : frontierCuts(g_, roots_, isForward_))
      if (llvm::Error e = consider(kept, PlannedBy::Frontiers))
        return e;
    // With chunks, those were the cuts before the first chunk's backward part: all that matter if a
    // head alone is divided, and none if the whole step is.
    if (const Graph &whole = undivided(); undivided_)
      for (const std::vector<ValueId> &kept :
           frontierCuts(whole, storageRoots(whole), forwardPart(whole)))
        if (llvm::Error e = consider(divided(kept), PlannedBy::Frontiers))
          return e;
    if (hadBottlenecks && result_.policyUsed == PlannedBy::Frontiers)
      note(bottlenecks_.isEnough
               ? "segments that keep their whole frontier need less than the bottlenecks"
               : "the bottlenecks leave most of the network in one piece; segments that keep "
                 "their whole frontier need less");
    return llvm::Error::success();
  }

  void noteGain() {
    if (!choices_.hasBest()) {
      const auto tried = choices_.leastTried();
      std::string least = tried ? " (" + std::to_string(*tried) + " bytes against " +
                                      std::to_string(choices_.baseline().peakBytes) + ")"
                                : "";
      note("policy '" + policyName(o_.policy).str() +
           "' would save no memory over no checkpointing" + least + "; nothing is recomputed");
      result_.policyUsed = PlannedBy::None;
    } else if (choices_.recomputed() == 0) {
      note("everything that the backward part reads is kept: there is nothing to recompute");
    }
  }

  PolicyInParts concluded() {
    result_.baseline = choices_.baseline();
    result_.parts = choices_.takeBest();
    return std::move(result_);
  }

  const Graph &g_;
  const PolicyOptions &o_;
  const std::vector<ValueId> roots_;
  const std::vector<bool> isForward_; // by node
  ScoredChoices choices_;
  std::optional<Graph> undivided_; // the graph before chunks and messages, if there are any
  BottleneckChoice bottlenecks_;   // of the policy `memory`
  PolicyInParts result_;           // without the plans
};

} // namespace

llvm::ArrayRef<llvm::StringRef> policyNames() { return kNames; }

std::optional<Policy> parsePolicy(llvm::StringRef name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name)
      return static_cast<Policy>(i);
  return std::nullopt;
}

llvm::StringRef policyName(Policy p) { return kNames[static_cast<size_t>(p)]; }

PlannedBy plannedBy(Policy p) {
  switch (p) {
  case Policy::None:
    return PlannedBy::None;
  case Policy::Speed:
    return PlannedBy::Speed;
  case Policy::Memory:
    return PlannedBy::Memory;
  case Policy::Collection:
    return PlannedBy::Collection;
  }
  ISTHMUS_UNREACHABLE("an unknown policy");
}

llvm::Expected<PolicyInParts> planPolicyInParts(const Graph &g, const GraphProblem &p,
                                                llvm::ArrayRef<ProblemPart> parts,
                                                const PolicyOptions &options) {
  return Planner(g, p, parts, options).run();
}

llvm::Expected<PolicyResult> planPolicy(const Graph &g, const GraphProblem &p,
                                        const PolicyOptions &options) {
  auto found = planPolicyInParts(g, p, ProblemPart{&p.problem, {}}, options);
  if (!found)
    return found.takeError();
  CheckpointPlan &plan = found->parts.front();
  return PolicyResult{std::move(plan.schedule),      found->baseline,   plan.planned,
                      std::move(found->checkpoints), found->policyUsed, std::move(found->notes)};
}

} // namespace isthmus
