#include "passes/checkpoint/policy.h"

#include "ir/check.h"
#include "ir/loss_value.h"
#include "passes/checkpoint/bottleneck_choice.h"
#include "passes/checkpoint/bottlenecks.h"
#include "passes/checkpoint/frontier.h"
#include "passes/names.h"
#include "passes/plan/checkpoint_schedule.h"
#include "passes/rewrite/original.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kNames[] = {"none", "speed", "memory", "collection"};

class Planner {
public:
  Planner(const Graph &g, const GraphProblem &p, const PolicyOptions &o)
      : g_(g), p_(p), o_(o), roots_(storageRoots(g)) {}

  llvm::Expected<PolicyResult> run() {
    result_.schedule = plan::sourceOrder(p_.problem);
    result_.baseline = plan::evaluate(p_.problem, result_.schedule);
    if (!result_.baseline.error.empty())
      return internalError("the source order is not valid: {0}", result_.baseline.error);
    result_.planned = result_.baseline;
    result_.policyUsed = plannedBy(o_.policy);
    if (o_.policy == Policy::None)
      return std::move(result_);
    if (!g_.hasBackward())
      return addRemedy(makeError("a policy needs a graph with a backward pass"),
                       {"loss", "", "give the loss"});

    auto chosen = choose();
    if (!chosen)
      return chosen.takeError();
    std::vector<ValueId> kept = withoutEnds(*chosen);
    if (o_.policy != Policy::Memory && kept.empty())
      return makeError(
          "no checkpoints are left: policy '{0}' found {1} values, all of them inputs or outputs",
          policyName(o_.policy), chosen->size());
    if (kept.empty()) {
      note("no bottleneck was found: every value has a path around it; segments that keep their "
           "whole frontier are tried");
    } else {
      consider(kept, plannedBy(o_.policy));
    }
    bool gains = result_.planned.peakBytes < result_.baseline.peakBytes;
    // What chunks leave of a segment is not what the bottlenecks were chosen by.
    if (o_.policy == Policy::Memory && (!isEnough_ || !gains || undivided_))
      considerFrontiers(/*hadBottlenecks=*/!kept.empty());
    conclude();
    return std::move(result_);
  }

private:
  void note(std::string text) { result_.notes.push_back(std::move(text)); }

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
    return def && g_.node(def).phase == Phase::Forward;
  }

  llvm::Expected<std::vector<ValueId>> contractions() const {
    std::vector<ValueId> out;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (const Node &n = g_.node(NodeId(i)); n.op->is(kContraction) && n.phase == Phase::Forward)
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
    BottleneckChoice choice = chooseBottlenecks(whole, storageRoots(whole));
    isEnough_ = choice.isEnough;
    return divided(choice.taken());
  }

  const Graph &undivided() {
    if (!g_.numReplaced())
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

  // Removes inputs and outputs, which are live in any case, and values that the forward part does
  // not make.
  std::vector<ValueId> withoutEnds(const std::vector<ValueId> &chosen) {
    std::vector<ValueId> out;
    const llvm::DenseSet<ValueId> all(g_.outputs().begin(), g_.outputs().end());
    size_t inputs = 0, outputs = 0, later = 0;
    ValueId loss = lossOf(g_);
    for (ValueId v : chosen) {
      if (!g_.value(roots_[v.index]).def)
        ++inputs;
      else if (v == loss || all.count(v))
        ++outputs;
      else if (!isForwardResult(v))
        ++later;
      else
        out.push_back(v);
    }
    if (inputs)
      note(std::to_string(inputs) +
           " of the checkpoints are graph inputs, which are always live; left out");
    if (outputs)
      note(std::to_string(outputs) +
           " of the checkpoints are outputs, which are live to the end in any case; left out");
    if (later)
      note(std::to_string(later) +
           " of the checkpoints are not made by the forward part; left out");
    return out;
  }

  // Scores keeping exactly `kept`, and takes it if it is the best so far.
  void consider(const std::vector<ValueId> &kept, PlannedBy name) {
    if (keep_.empty())
      keepIndependentOfParameters();
    std::vector<plan::Read> added;
    for (ValueId v : kept)
      if (plan::Read r = p_.readOf(g_, roots_[v.index]); !keep_[r.op][r.output]) {
        keep_[r.op][r.output] = true;
        added.push_back(r);
      }
    plan::Schedule s = plan::checkpointSchedule(p_.problem, keep_);
    for (const plan::Read &r : added)
      keep_[r.op][r.output] = false;
    plan::Evaluation e = plan::evaluate(p_.problem, s);
    if (!e.error.empty())
      return note("internal: a schedule was not valid: " + e.error);
    const bool isOwn = !leastTried_; // the policy's own choice is considered first
    leastTried_ = std::min(leastTried_.value_or(e.peakBytes), e.peakBytes);
    // A choice that saves no memory is not worth its time, unless it recomputes nothing.
    const bool isFree = isOwn && e.recomputed == 0 && e.peakBytes == result_.planned.peakBytes;
    if (e.peakBytes >= result_.planned.peakBytes && !isFree)
      return;
    improved_ = true;
    result_.schedule = std::move(s);
    result_.planned = e;
    result_.checkpoints = kept;
    result_.policyUsed = name;
  }

  // As the original does, recompute only values that depend on the values differentiated by.
  void keepIndependentOfParameters() {
    keep_.resize(p_.problem.ops.size());
    for (size_t i = 0; i < keep_.size(); ++i)
      keep_[i].assign(std::max<size_t>(1, p_.problem.ops[i].outputBytes.size()), false);
    std::vector<bool> depends = dependsOnParameters(g_);
    for (uint32_t n = 0; n < g_.numNodes(); ++n) {
      const Node &node = g_.node(NodeId(n));
      for (uint32_t r = 0; r < node.numResults; ++r)
        if (!depends[node.result(r).index] && !node.op->is(kView))
          keep_[p_.opOf(NodeId(n))][r] = true;
    }
  }

  void considerFrontiers(bool hadBottlenecks) {
    for (const std::vector<ValueId> &kept : frontierCuts(g_, roots_))
      consider(kept, PlannedBy::Frontiers);
    // With chunks, those were the cuts before the first chunk's backward part: all that matter if a
    // head alone is divided, and none if the whole step is.
    if (const Graph &whole = undivided(); undivided_)
      for (const std::vector<ValueId> &kept : frontierCuts(whole, storageRoots(whole)))
        consider(divided(kept), PlannedBy::Frontiers);
    if (hadBottlenecks && result_.policyUsed == PlannedBy::Frontiers)
      note(isEnough_ ? "segments that keep their whole frontier need less than the bottlenecks"
                     : "the bottlenecks leave most of the network in one piece; segments that keep "
                       "their whole frontier need less");
  }

  void conclude() {
    if (!improved_) {
      std::string least = leastTried_ ? " (" + std::to_string(*leastTried_) + " bytes against " +
                                            std::to_string(result_.baseline.peakBytes) + ")"
                                      : "";
      note("policy '" + policyName(o_.policy).str() +
           "' would save no memory over no checkpointing" + least + "; nothing is recomputed");
      result_.policyUsed = PlannedBy::None;
    } else if (result_.planned.recomputed == 0) {
      note("everything that the backward part reads is kept: there is nothing to recompute");
    }
  }

  const Graph &g_;
  const GraphProblem &p_;
  const PolicyOptions &o_;
  std::vector<ValueId> roots_;
  std::optional<Graph> undivided_;      // the graph before chunks, if there are any
  std::vector<std::vector<bool>> keep_; // by op and output: whether every policy keeps it
  PolicyResult result_;
  std::optional<int64_t> leastTried_; // the lowest peak of all choices considered
  bool isEnough_ = true;              // sqrt(N) bottlenecks or more, and they divide the network
  bool improved_ = false;
};

} // namespace

llvm::ArrayRef<llvm::StringRef> policyNames() { return kNames; }

std::optional<Policy> parsePolicy(llvm::StringRef name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name)
      return static_cast<Policy>(i);
  return std::nullopt;
}

std::vector<bool> dependsOnParameters(const Graph &g) {
  std::vector<bool> depends(g.numValues(), false);
  for (const Input &i : g.inputs())
    depends[i.value.index] = i.kind == InputKind::Param;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (const OutputRole &role = g.role(i); role.kind == OutputKind::Gradient && g.inputOf(role.of))
      depends[role.of.index] = true;
  for (uint32_t n = 0; n < g.numNodes(); ++n) {
    const Node &node = g.node(NodeId(n));
    bool any = llvm::any_of(node.operands, [&](ValueId v) { return depends[v.index]; });
    for (uint32_t r = 0; r < node.numResults; ++r)
      depends[node.result(r).index] = any;
  }
  return depends;
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

llvm::Expected<PolicyResult> planPolicy(const Graph &g, const GraphProblem &p,
                                        const PolicyOptions &options) {
  return Planner(g, p, options).run();
}

} // namespace isthmus
