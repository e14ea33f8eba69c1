// Planning, rewriting and placing a graph, with the figures that every report has.
#pragma once

#include "ir/layout.h"
#include "passes/checkpoint/policy.h"
#include "passes/plan/planner.h"
#include "runtime/device.h"
#include "tools/cli/console.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/options.h"

namespace isthmus {

struct Report {
  int64_t baselinePeakBytes = 0, predictedPeakBytes = 0, arenaBytes = 0, persistentBytes = 0,
          outputBytes = 0;
  double recomputeOverhead = 0;
  std::optional<double> lowerBoundOverhead = 0; // of schedules such as `boundModel` says; if known
  std::string boundModel = "any-order";         // none costs less than running everything once
  std::optional<int64_t> lowerBoundBytes, smallestBudgetBytes; // where known
  std::string policyUsed = "none";
  std::string mode; // train, eval or as-written
  size_t nodes = 0, clones = 0;
  double planSeconds = 0;
  std::vector<int64_t> measuredPeakBytes;   // empty, or of the run
  std::optional<int64_t> deviceMemoryBytes; // what the device had less after the run, by its count
  std::vector<double> stepSeconds, loss;
};

// Writes it whole or not at all; an empty path writes nothing.
llvm::Error writeReport(const Report &r, const std::string &path);

struct Planned {
  Graph graph;
  Layout layout;
  Report report;
  std::vector<ValueId> checkpoints;   // of `graph`
  std::optional<int64_t> budgetBytes; // what the arena was to stay within, where that was asked
  double pricePerByte = 0;            // what one byte more would save, by the bound; microseconds
  bool wasInterrupted = false;        // the search for the plan, by the user
};

// `g` has no dead code added; clones in it are dropped and planned anew if any plan option is
// given, and kept otherwise. A budget that cannot be met is an error with exit code 3; what is
// known then is written to `reportPath`, if that is not empty.
llvm::Expected<Planned> planned(const Graph &g, const PlanOptions &o, const Target &target,
                                const std::string &reportPath = "");

void setBound(Report &r, const plan::PlanResult &found);

// A search for a plan as the user meets it: a bar shows it, and Ctrl-C ends it with the best so
// far. Sets the options' progress, and must outlive the search.
class WatchedSearch {
public:
  explicit WatchedSearch(plan::PlanOptions &options);
  bool wasInterrupted() const { return interrupt_.happened(); }

private:
  InterruptNoted interrupt_;
  ProgressBar bar_{"planning", kParts};
  static constexpr size_t kParts = 1000;
};

// Exit code 3; `r` has the least budget that is known to be met.
llvm::Error notWithin(const Report &r, int64_t budget);

// After the products of an interrupted search are written, or where it has found none. Exit code
// 130.
llvm::Error interruptedError();
llvm::Error interruptedBefore(int64_t budget);

} // namespace isthmus
