// Reasons for a plan's decisions, in words.

#include "ir/spelling.h"
#include "passes/checkpoint/bottleneck_choice.h"
#include "tools/cli/explanation.h"

namespace isthmus {
namespace {

std::string name(const ExplainedPlan &e, uint32_t node) {
  return valueText(e.plan.graph.nodeName(NodeId(node)));
}

std::string span(const ExplainedPlan &e, uint32_t from, uint32_t to) {
  return "for " + nodesText(to - from) + ", from " + name(e, from) + " to " + name(e, to);
}

std::string timeText(double us) { return secondsText(us * 1e-6); }

double perMiB(double us, int64_t bytes) { return us / (double(bytes) / double(1 << 20)); }

// The limit that speaks against keeping a tensor: the budget, or else the plan's own peak.
struct Bar {
  int64_t bytes;
  const char *text;
};
Bar barOf(const ExplainedPlan &e) {
  if (e.plan.budgetBytes && *e.plan.budgetBytes < e.why.baseline.bytes)
    return {*e.plan.budgetBytes, "the budget"};
  return {e.why.planned.bytes, "the plan's peak"};
}

// For a kept tensor: the effect of evicting it in its longest idle interval.
std::string evictionText(const ExplainedPlan &e, const TensorDecision &f) {
  if (!f.mayRunAgain)
    return "its node may run only once: an output depends on its storage";
  if (!f.eviction)
    return f.kept && f.kept->to > f.kept->from + 1
               ? "it cannot be rematerialized where it is needed"
               : "it has no idle interval to evict it in";
  const Eviction &r = *f.eviction;
  std::string cost =
      llvm::formatv("rematerializing it at {0} would take {1} ({2} {3})", name(e, f.kept->to),
                    timeText(r.us), r.runs, r.runs == 1 ? "run" : "runs");
  int64_t peak = e.why.planned.bytes;
  if (r.peakBytes < peak)
    return cost + llvm::formatv(" and lower the peak by {0}: {1:F1} us per MiB",
                                bytesText(peak - r.peakBytes), perMiB(r.us, peak - r.peakBytes))
                      .str();
  if (r.peakBytes > peak)
    return cost + " and raise the peak by " + bytesText(r.peakBytes - peak) +
           ": its operands would have to be live";
  if (f.kept->live < peak)
    return cost + " and not lower the peak: in its idle interval at most " +
           bytesText(f.kept->live) + " is live";
  return cost + " and not lower the peak: as much is live at other nodes";
}

// For a tensor kept within a budget: whether rematerializing it costs more than memory is worth.
std::string priceText(const ExplainedPlan &e, const TensorDecision &f) {
  std::string text = evictionText(e, f);
  auto worth = e.usPerMiB();
  if (!f.eviction || !worth || f.eviction->peakBytes >= e.why.planned.bytes)
    return text;
  if (perMiB(f.eviction->us, e.why.planned.bytes - f.eviction->peakBytes) > *worth)
    return text + llvm::formatv("; memory is worth {0:F1} here", *worth).str();
  return text +
         llvm::formatv("; that is less than memory is worth here ({0:F1}), but the budget is met "
                       "without it",
                       *worth)
             .str();
}

// For a recomputed tensor: the interval between two instances in which keeping it would cost most
// memory.
const IdleInterval *worstAway(const TensorDecision &f) {
  const IdleInterval *worst = nullptr;
  for (const IdleInterval &g : f.away)
    if (!worst || g.live > worst->live)
      worst = &g;
  return worst;
}

std::string keptInsteadText(const ExplainedPlan &e, const TensorDecision &f) {
  const IdleInterval *worst = worstAway(f);
  if (!worst)
    return "its instances are live at the same time";
  Bar bar = barOf(e);
  int64_t with = worst->live + f.bytes;
  if (with > bar.bytes)
    return "if kept, " + bytesText(with) + " would be live meanwhile, " +
           bytesText(with - bar.bytes) + " over " + bar.text;
  return "if it alone were kept, " + bytesText(with) + " would be live meanwhile, within " +
         bar.text;
}

std::string awayText(const ExplainedPlan &e, const TensorDecision &f) {
  const IdleInterval *worst = worstAway(f);
  return (worst ? "not live " + span(e, worst->from, worst->to) + "; " : "") +
         keptInsteadText(e, f);
}

} // namespace

std::string nodesText(size_t n) { return std::to_string(n) + (n == 1 ? " node" : " nodes"); }

std::optional<double> ExplainedPlan::usPerMiB() const {
  const bool isFree = why.plannedUs <= why.baselineUs * (1 + 1e-9);
  const bool isPriced = plan.figures.lowerBoundOverhead && (plan.pricePerByte > 0 || isFree);
  if (!plan.budgetBytes || !isPriced)
    return std::nullopt;
  return plan.pricePerByte * double(1 << 20);
}

static std::string timesText(unsigned n) {
  return n == 1 ? "once" : n == 2 ? "twice" : std::to_string(n) + " times";
}

static std::string recomputedText(const ExplainedPlan &e, const TensorDecision &f) {
  return llvm::formatv("recomputed {0}, +{1} ({2:F2} % of a step)", timesText(f.recomputations),
                       timeText(f.addedUs), 100 * f.addedUs / e.why.baselineUs);
}

std::string decisionText(const ExplainedPlan &e, const TensorDecision &f) {
  switch (f.kind) {
  case TensorDecision::Kind::Kept:
    return f.kept ? "kept, unused " + span(e, f.kept->from, f.kept->to)
                  : "kept " + span(e, f.first, f.last);
  case TensorDecision::Kind::Recomputed:
    return recomputedText(e, f);
  case TensorDecision::Kind::Fetched:
    return llvm::formatv("copied to the host and back {0}, {1} on the link each way{2}",
                         timesText(f.fetches), timeText(f.linkUs),
                         f.recomputations ? "; " + recomputedText(e, f) : "");
  case TensorDecision::Kind::Rebuilt:
    return llvm::formatv("rebuilt by its inverse {0}, +{1} ({2:F2} % of a step){3}",
                         timesText(f.rebuildings), timeText(f.rebuildUs),
                         100 * f.rebuildUs / e.why.baselineUs,
                         f.recomputations ? "; " + recomputedText(e, f) : "");
  case TensorDecision::Kind::Encoded:
    return llvm::formatv("kept as a smaller value of {0}{1}", bytesText(f.encodedBytes),
                         f.recomputations ? "; " + recomputedText(e, f) : "");
  case TensorDecision::Kind::Output:
    return "an output, live from " + name(e, f.first) + " to the end";
  case TensorDecision::Kind::Passing:
    return "not needed by the backward pass, live " + span(e, f.first, f.last);
  case TensorDecision::Kind::Gradient:
    return "made and used by the backward pass, " + span(e, f.first, f.last);
  }
  return "";
}

std::string whyText(const ExplainedPlan &e, const TensorDecision &f) {
  if (f.kind == TensorDecision::Kind::Encoded && !f.recomputations)
    return "its readers in the backward pass need no more";
  if (f.kind == TensorDecision::Kind::Recomputed || f.kind == TensorDecision::Kind::Fetched ||
      f.kind == TensorDecision::Kind::Rebuilt || f.kind == TensorDecision::Kind::Encoded)
    return (e.isByPolicy() ? "no checkpoint; " : "") + awayText(e, f);
  if (f.kind != TensorDecision::Kind::Kept)
    return "";
  if (e.isByPolicy() && f.isCheckpoint)
    return "a checkpoint of policy " + plannedByText(e.options.policyUsed).str() + "; " +
           evictionText(e, f);
  if (e.isByPolicy() && !f.dependsOnParameters)
    return "depends on no parameter: policies keep such values; " + evictionText(e, f);
  return priceText(e, f);
}

bool isTaken(const BottleneckDecision &b) {
  return b.why == BottleneckDecision::Why::Taken ||
         (b.why == BottleneckDecision::Why::Price && b.tensor.kind == TensorDecision::Kind::Kept);
}

std::string whyText(const ExplainedPlan &e, const BottleneckDecision &b) {
  const Graph &g = e.plan.graph;
  switch (b.why) {
  case BottleneckDecision::Why::Taken:
    return "a checkpoint";
  case BottleneckDecision::Why::End:
    return "an output, which is live to the end in any case";
  case BottleneckDecision::Why::Small:
    return llvm::formatv("too small: {0} elements, and a checkpoint has at least {1}",
                         g.type(b.value).elements(), e.options.smallestCheckpoint);
  case BottleneckDecision::Why::KindOfOp:
    return "made by " + g.node(g.value(b.value).def).op->name +
           ": losses, norms, dropout and casts are left out";
  case BottleneckDecision::Why::SameStorage:
    return "a view of a bottleneck before it";
  case BottleneckDecision::Why::NotRead:
    return "the backward pass does not read it, and reads enough of the others";
  case BottleneckDecision::Why::InSegment:
    return llvm::formatv(
        "inside a segment: one bottleneck in {0} is kept, to keep about sqrt(N) = {1:F1} of them",
        e.why.checkpointStep, e.why.checkpointTarget);
  case BottleneckDecision::Why::NotProduct:
    return "made by " + g.node(g.value(b.value).def).op->name +
           ": speed keeps convolutions and matrix products";
  case BottleneckDecision::Why::NotNamed:
    return "neither named nor marked";
  case BottleneckDecision::Why::NotInCut:
    return "in none of the frontiers that are kept";
  case BottleneckDecision::Why::NoGain:
    return "the policy would save no memory over no checkpointing, so nothing is recomputed";
  case BottleneckDecision::Why::Price:
    break;
  }
  if (b.tensor.kind == TensorDecision::Kind::Passing)
    return "the backward pass does not need it";
  std::string why = b.tensor.kind == TensorDecision::Kind::Recomputed ? keptInsteadText(e, b.tensor)
                                                                      : whyText(e, b.tensor);
  return decisionText(e, b.tensor) + (why.empty() ? "" : "; " + why);
}

} // namespace isthmus
