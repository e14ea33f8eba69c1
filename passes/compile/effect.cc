#include "passes/compile/effect.h"

#include "ir/ops/averages.h"
#include "ir/units.h"
#include "passes/chunk/request.h"
#include "passes/chunk/whole_node.h"
#include "passes/compile/planning.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

AskedOfPeak askedOfPeak(const CompileOptions &o) {
  AskedOfPeak asked;
  const bool isStaged = o.stages.has_value();
  const auto *budget = std::get_if<Budget>(&o.plan);
  asked.parts = !isStaged && (!o.chunks.empty() || o.microBatches > 1);
  asked.lower = asked.parts || asksForPolicy(o) || (budget && budget->kind == Budget::Smallest);
  asked.any = asked.lower || budget;
  return asked;
}

std::optional<LittleEffect> littleEffect(const Figures &f, const AskedOfPeak &asked) {
  constexpr double kLittle = 0.01, kDear = 10;
  if (!f.hasPlan || f.baselinePeakBytes <= 0)
    return std::nullopt;
  const double saved = 1 - double(f.predictedPeakBytes) / double(f.baselinePeakBytes);
  if (asked.parts && saved < 0)
    return LittleEffect::PartsTakeMore;
  if (asked.lower && saved < kLittle)
    return LittleEffect::PeakStays;
  if (asked.any && saved > 0 && f.recomputeOverhead > kDear * saved)
    return LittleEffect::IsDear;
  return std::nullopt;
}

std::vector<size_t> idleStages(const Figures &f) {
  std::vector<size_t> idle;
  for (size_t i = 0; i < f.stages.size() && f.stages.size() > 1; ++i)
    if (f.stages[i].busySeconds < 0.5 * f.simulatedSeconds)
      idle.push_back(i);
  return idle;
}

namespace {

// What holds the peak of a graph on one device.
struct PeakHolder {
  NodeId node;             // that runs at the peak
  int64_t ownBytes = 0;    // of its operands, results and workspace in the arena
  int64_t outputBytes = 0; // of other values there that live to the end
};

std::optional<PeakHolder> peakHolder(const Graph &g, const Target &target) {
  auto p = extractProblem(g, target);
  if (!p) {
    llvm::consumeError(p.takeError());
    return std::nullopt;
  }
  const plan::Schedule order = plan::sourceOrder(p->problem);
  const plan::Evaluation e = plan::evaluate(p->problem, order);
  if (!e.error.empty() || order.empty() || !p->isNode(order[e.peakStep]))
    return std::nullopt;
  const plan::OpIndex op = order[e.peakStep];
  PeakHolder out;
  out.node = p->nodeOf(op);
  out.ownBytes = p->problem.rounded(p->problem.ops[op].workspace);
  for (const plan::Instance &i : plan::instancesOf(p->problem, order)) {
    if (i.first > e.peakStep || i.last < e.peakStep || p->problem.ops[i.made.op].isPinned)
      continue;
    if (i.first == e.peakStep || llvm::is_contained(i.uses, uint32_t(e.peakStep)))
      out.ownBytes += i.bytes;
    else if (i.isOutput)
      out.outputBytes += i.bytes;
  }
  return out;
}

std::string percent(double share) { return llvm::formatv("{0:F1} %", 100 * share).str(); }

std::string nodeText(const Graph &g, NodeId n) {
  return "'" + g.nodeName(n).str() + "' (" + g.node(n).op->name + ")";
}

// What happened, in figures.
std::string effectText(const Figures &f, LittleEffect effect, const CompileOptions &o) {
  const std::string before = bytesText(f.baselinePeakBytes),
                    after = bytesText(f.predictedPeakBytes);
  const int64_t saved = f.baselinePeakBytes - f.predictedPeakBytes;
  const std::string price =
      f.recomputeOverhead >= 0.0005 ? " for " + percent(f.recomputeOverhead) + " more time" : "";
  switch (effect) {
  case LittleEffect::PartsTakeMore:
    return (o.microBatches > 1 ? std::to_string(o.microBatches) + " micro-batches" : "the chunks") +
           " take more than the whole: a peak of " + after + ", and " + before + " without them";
  case LittleEffect::PeakStays:
  case LittleEffect::IsDear:
    if (saved <= 0)
      return "the peak stays at " + after + price;
    return "the peak falls by only " + bytesText(saved) + " (" +
           percent(double(saved) / double(f.baselinePeakBytes)) + ")" + price;
  }
  return "";
}

Remark peakRemark(const Compiled &c, LittleEffect effect, const CompileOptions &o,
                  const Target &target) {
  const Graph &g = c.graph;
  const Figures &f = c.figures;
  Remark remark(effectText(f, effect, o));
  const auto whole = o.microBatches > 1 ? wholeNodes(g) : std::vector<WholeNode>();
  if (!whole.empty()) {
    const Node &n = g.node(whole.front().node);
    remark.text +=
        "; " + nodeText(g, whole.front().node) + " needs the whole batch, where all parts meet";
    if (takesBatchStatistics(*n.op, n.attrs))
      remark.remedies.push_back({"batch-norm", "micro", "take the statistics of each micro-batch"});
    return remark;
  }
  const auto *budget = std::get_if<Budget>(&o.plan);
  const bool isSmallest = budget && budget->kind == Budget::Smallest;
  const auto holder = c.programs.empty() ? peakHolder(g, target) : std::nullopt;
  const bool isOwn = holder && 2 * holder->ownBytes > f.predictedPeakBytes;
  const bool isOfOutputs = holder && !isOwn && 2 * holder->outputBytes > f.predictedPeakBytes;
  if (holder) {
    remark.text += "; it is reached at " + nodeText(g, holder->node);
    if (isOwn)
      remark.text += ", whose own operands and results take " + bytesText(holder->ownBytes);
    else if (isOfOutputs)
      remark.text += ", when " + bytesText(holder->outputBytes) +
                     " of results and gradients are live, which stay to the end";
  }
  if (effect == LittleEffect::IsDear && budget)
    remark.remedies.push_back({"max-added", "50%", "bound the price"});
  else if (!budget)
    remark.remedies.push_back({"budget", "min", "search for the least"});
  if (isOwn && !o.ways.chunk && o.chunks.empty() && o.microBatches < 2) {
    if (isSmallest)
      remark.remedies.push_back({"allow", "recompute,chunk", "run such nodes part by part"});
    else if (examplesOf(c.original, o.batch) >= 2)
      remark.remedies.push_back({"microbatches", "2", "run the step in parts"});
  }
  return remark;
}

// Uneven stages wait for the slowest one, even stages while the pipeline fills and drains.
Remark idleRemark(const Compiled &c, llvm::ArrayRef<size_t> idle, const CompileOptions &o) {
  const Figures &f = c.figures;
  double busiest = 0;
  size_t slowest = 0;
  for (size_t i = 0; i < f.stages.size(); ++i)
    if (f.stages[i].busySeconds > busiest)
      busiest = f.stages[slowest = i].busySeconds;
  std::string text;
  for (size_t i : idle.take_front(4))
    text += (text.empty() ? "" : ", ") + f.stages[i].device + " (" +
            percent(1 - f.stages[i].busySeconds / f.simulatedSeconds) + ")";
  if (idle.size() > 4)
    text += " and " + std::to_string(idle.size() - 4) + " more";
  text = "devices wait for over half of the step: " + text;
  const bool isUneven = 2 * f.stages[idle.front()].busySeconds < busiest;
  if (isUneven)
    return {text + "; " + f.stages[slowest].device + " works for " + secondsText(busiest) +
                " and " + f.stages[idle.front()].device + " for " +
                secondsText(f.stages[idle.front()].busySeconds),
            {"balance", "", "divide the step otherwise"}};
  const int64_t parts = std::max<int64_t>(2, 2 * o.microBatches);
  Remark remark(text +
                "; stages wait while the first micro-batch reaches them and the last one returns");
  if (parts <= examplesOf(c.original, o.batch))
    remark.remedies.push_back(
        {"microbatches", std::to_string(parts), "run the step in more parts"});
  return remark;
}

} // namespace

void noteLittleEffect(const Compiled &c, const CompileOptions &o, const Target &target) {
  const Figures &f = c.figures;
  if (const auto effect = littleEffect(f, askedOfPeak(o)))
    o.note(peakRemark(c, *effect, o, target));
  if (const std::vector<size_t> idle = idleStages(f); !idle.empty() && o.stages)
    o.note(idleRemark(c, idle, o));
}

} // namespace isthmus
