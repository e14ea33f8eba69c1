#include "passes/compile/figures.h"

#include "ir/units.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

namespace isthmus {

static int64_t persistentOf(const plan::Problem &p) {
  int64_t bytes = 0;
  for (const plan::Op &op : p.ops)
    for (int64_t b : op.outputBytes)
      bytes += op.isPinned ? p.rounded(b) : 0;
  return bytes;
}

Figures figuresOf(const plan::Problem &p, const plan::PlanResult &found) {
  Figures f;
  f.baselinePeakBytes = found.baseline.peakBytes;
  f.predictedPeakBytes = found.planned.peakBytes;
  f.arenaBytes = found.arenaBytes;
  f.persistentBytes = persistentOf(p);
  f.outputBytes = found.planned.outputBytes;
  f.recomputeOverhead = found.overhead();
  f.lowerBoundBytes = found.lowestPeak;
  setSmallest(f, found);
  setBound(f, found);
  f.policyUsed = PlannedBy::Budget;
  f.nodes = size_t(
      std::count_if(p.ops.begin(), p.ops.end(), [](const plan::Op &op) { return !op.isPinned; }));
  f.clones = found.planned.recomputed;
  f.transfers = found.planned.transfers;
  return f;
}

std::string kneeText(const Figures &f) {
  constexpr double kMiB = 1 << 20;
  const plan::Knee &k = *f.knee;
  auto time = [](double usPerByte) { return secondsText(1e-6 * kMiB * usPerByte); };
  const bool isFree = kMiB * k.above < 0.05; // it would be printed as zero
  return llvm::formatv("the knee of the price curve is a peak of {0}, +{1:F1} %: above it a MiB "
                       "less takes {2}, and below it {3}",
                       bytesText(k.at.peakBytes), 100 * plan::overhead(k.at.cost, f.baselineCost),
                       isFree ? "no time" : time(k.above) + " of a step on average", time(k.below))
      .str();
}

void setSmallest(Figures &f, const plan::PlanResult &found) {
  f.baselineCost = found.baseline.cost;
  if (found.smallestBytes == 0)
    return;
  f.smallestBudgetBytes = found.smallestBytes;
  if (found.smallestBytes == found.arenaBytes)
    f.smallestBudgetOverhead = found.overhead();
}

void setBound(Figures &f, const plan::PlanResult &found) {
  if (!found.isWithin)
    return;
  f.lowerBoundOverhead = std::nullopt;
  if (found.leastCost)
    f.lowerBoundOverhead = plan::overhead(*found.leastCost, found.baseline.cost);
  if (f.lowerBoundOverhead > 1e-12)
    f.boundModel = "plan-order";
}

} // namespace isthmus
