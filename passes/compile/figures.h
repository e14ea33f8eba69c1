// The figures that a plan promises.
#pragma once

#include "ir/record.h"
#include "passes/plan/knee.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isthmus {

// The figures of one device of a step over several.
struct StageFigures {
  std::string device;
  int64_t baselinePeakBytes = 0, predictedPeakBytes = 0, arenaBytes = 0, persistentBytes = 0,
          outputBytes = 0;
  // By the simulator: the time in which it computes, and that in which it waits before its first
  // node, between nodes, and behind its last one.
  double busySeconds = 0, waitBefore = 0, waitBetween = 0, waitAfter = 0;
  size_t nodes = 0;
};

// How evenly the step is divided, before anything is recomputed; seconds of a device of the mean
// speed (Cut::seconds).
struct CutFigures {
  uint32_t slowestStage = 0;
  double slowest = 0, mean = 0;
  // No slowest stage takes less: of the cuts in the forward order, and of those in any order.
  double least = 0, bound = 0;
};

// With stages, the peaks, arena and persistent bytes are the largest of those of the devices.
struct Figures {
  // False if no plan was found, as when a budget cannot be met: what a plan would promise is
  // unknown.
  bool hasPlan = true;
  int64_t baselinePeakBytes = 0, predictedPeakBytes = 0, arenaBytes = 0, persistentBytes = 0,
          outputBytes = 0;
  double recomputeOverhead = 0;                 // added cost as a share of the original cost
  std::optional<double> lowerBoundOverhead = 0; // for schedules of `boundModel`; none if unknown
  std::string boundModel = "any-order";         // no schedule costs less than running each op once
  std::optional<int64_t> lowerBoundBytes, smallestBudgetBytes; // none if unknown
  std::optional<double> smallestBudgetOverhead;                // likewise
  std::optional<plan::Knee> knee; // of the price curve; none if it bends nowhere, or unknown
  double baselineCost = 0;        // microseconds
  PlannedBy policyUsed = PlannedBy::None;
  std::vector<std::string> checkpoints; // names of the values that a policy keeps
  std::string mode;                     // "train", "eval" or "as-written"
  std::string costs; // "estimated" or "measured" for a target's costs; empty: the problem's own
  size_t nodes = 0, clones = 0;
  int64_t hostBytes = 0; // host memory for offloaded storages
  size_t transfers = 0;  // copies to the host and back
  size_t inversions = 0; // storages rebuilt by inverses
  size_t chunks = 0;     // nodes that run a part of a region or put parts together
  size_t encodings = 0;  // smaller values that are kept in place of storages
  // By name of a value that is inverted: the error of its inverse on the first step, as a share of
  // the value's largest element. Empty if they were not measured.
  std::map<std::string, double> inverseErrors;
  double planSeconds = 0;

  // Of a step over several devices.
  std::vector<StageFigures> stages; // empty: one device
  std::string schedule, checkpoint; // those that were taken; empty: as in the file
  double simulatedSeconds = 0;      // of the step
  double bubble = 0;                // the share of the devices' time in which they wait
  size_t messages = 0;
  std::optional<CutFigures> cut; // none: devices were named by hand
};

// The figures of a plan for a problem, with or without a graph.
Figures figuresOf(const plan::Problem &p, const plan::PlanResult &found);
// Sets the smallest budget that a search met, and its price.
void setSmallest(Figures &f, const plan::PlanResult &found);
// Sets the lower bound of the cost that a search proved.
void setBound(Figures &f, const plan::PlanResult &found);
// "the knee of the price curve is 6.3 MiB, +9.1 %: ..."; requires a knee.
std::string kneeText(const Figures &f);

} // namespace isthmus
