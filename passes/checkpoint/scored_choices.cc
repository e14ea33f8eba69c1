#include "passes/checkpoint/scored_choices.h"

#include "ir/diagnostics.h"
#include "ir/storage.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

ScoredChoices::ScoredChoices(const Graph &g, const GraphProblem &p,
                             llvm::ArrayRef<ProblemPart> parts, const std::vector<bool> &isForward)
    : g_(g), p_(p), roots_(storageRoots(g)), at_(p.problem.ops.size()) {
  for (const ProblemPart &part : parts) {
    Part to{part.problem, {}, {}, {}};
    for (plan::OpIndex i = 0; i < part.problem->ops.size(); ++i) {
      const plan::OpIndex op = part.whole.empty() ? i : part.whole[i];
      to.keep.emplace_back(std::max<size_t>(1, part.problem->ops[i].outputBytes.size()), false);
      if (op >= p.problem.ops.size() || !p.isNode(op))
        continue;
      at_[op] = {uint32_t(parts_.size()), i};
      if (!isForward[p.nodeOf(op).index] || part.problem->ops[i].phase == plan::OpPhase::Forward)
        continue;
      if (!to.ofLastGradient)
        to.ofLastGradient = *part.problem;
      to.ofLastGradient->ops[i].phase = plan::OpPhase::Forward;
    }
    parts_.push_back(std::move(to));
  }
}

llvm::Error ScoredChoices::scoreBaseline() {
  for (Part &part : parts_) {
    CheckpointPlan plain;
    plain.schedule = plan::sourceOrder(part.get());
    plain.planned = part.baseline = plan::evaluate(part.get(), plain.schedule);
    if (!plain.planned.error.empty())
      return internalError("the source order is not valid: {0}", plain.planned.error);
    best_.push_back(std::move(plain));
  }
  baseline_ = sum_ = sumOf(best_);
  keepIndependentOfParameters();
  return llvm::Error::success();
}

plan::Evaluation ScoredChoices::sumOf(const std::vector<CheckpointPlan> &plans) {
  if (plans.size() == 1)
    return plans.front().planned;
  plan::Evaluation sum;
  for (const CheckpointPlan &c : plans) {
    sum.peakBytes = std::max(sum.peakBytes, c.planned.peakBytes);
    sum.cost += c.planned.cost;
    sum.outputBytes += c.planned.outputBytes;
    sum.recomputed += c.planned.recomputed;
  }
  return sum;
}

llvm::Expected<bool> ScoredChoices::isBest(llvm::ArrayRef<ValueId> kept) {
  std::vector<std::pair<uint32_t, plan::Read>> added;
  for (ValueId v : kept) {
    const plan::Read whole = p_.readOf(g_, roots_[v.index]);
    const auto [part, op] = at_[whole.op];
    std::vector<bool> &outputs = parts_[part].keep[op];
    if (!outputs[whole.output]) {
      added.push_back({part, {op, whole.output}});
      outputs[whole.output] = true;
    }
  }
  std::vector<CheckpointPlan> plans;
  int64_t tried = 0;
  std::string error;
  for (const Part &part : parts_) {
    CheckpointPlan c;
    c.schedule = plan::checkpointSchedule(part.get(), part.keep);
    c.planned = plan::evaluate(part.get(), c.schedule);
    if (!c.planned.error.empty())
      error = c.planned.error;
    tried = std::max(tried, c.planned.peakBytes);
    if (parts_.size() > 1 && c.planned.peakBytes >= part.baseline.peakBytes) {
      c.schedule = plan::sourceOrder(part.get());
      c.planned = part.baseline;
    }
    plans.push_back(std::move(c));
  }
  const bool isBest = error.empty() && isBetter(sumOf(plans), tried);
  if (isBest) {
    for (size_t i = 0; i < plans.size(); ++i)
      plans[i].isCheckpoint = parts_[i].keep;
    best_ = std::move(plans);
    sum_ = sumOf(best_);
    hasBest_ = true;
  }
  for (const auto &[part, read] : added)
    parts_[part].keep[read.op][read.output] = false;
  if (!error.empty())
    return internalError("a schedule by checkpoints is not valid: {0}", error);
  return isBest;
}

bool ScoredChoices::isBetter(const plan::Evaluation &sum, int64_t tried) {
  const bool isFirst = !leastTried_;
  leastTried_ = std::min(leastTried_.value_or(tried), tried);
  if (sum.peakBytes != sum_.peakBytes)
    return sum.peakBytes < sum_.peakBytes;
  return hasBest_ ? sum.cost < sum_.cost : isFirst && sum.recomputed == 0;
}

void ScoredChoices::addFree() {
  for (size_t i = 0; i < best_.size(); ++i)
    if (best_[i].planned.recomputed > 0)
      addFreeCheckpoints(parts_[i].get(), best_[i]);
  sum_ = sumOf(best_);
}

// As the original does, recompute only values that depend on the values differentiated by.
void ScoredChoices::keepIndependentOfParameters() {
  const std::vector<bool> depends = dependsOnParameters(g_);
  for (uint32_t n = 0; n < g_.numNodes(); ++n) {
    const Node &node = g_.node(NodeId(n));
    const auto [part, op] = at_[p_.opOf(NodeId(n))];
    for (uint32_t r = 0; r < node.numResults; ++r)
      if (!depends[node.result(r).index] && !node.op->is(kView))
        parts_[part].keep[op][r] = true;
  }
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

} // namespace isthmus
