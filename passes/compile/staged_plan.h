// The fastest plan of a divided step that every device has room for.
#pragma once

#include "passes/compile/divided_step.h"
#include "passes/stages/simulate.h"

namespace isthmus {

// An order that comes later in the list, and holds more, is taken if it is faster than this.
constexpr double kMuchFaster = 0.995;

// The orders to choose from, those first that hold less.
std::vector<StageOrder> ordersToTry(const DividedStep &step, const StageOptions &s);

struct StagedPlan {
  Graph graph; // rewritten
  std::vector<CompiledProgram> programs;
  StageOrder order = StageOrder::OneFOneB;
  std::optional<CheckpointMode> mode;   // none: planned, or by a policy
  std::vector<std::string> checkpoints; // names of the values that a policy keeps
  std::vector<int64_t> baselinePeaks;   // by place
  double added = 0;                     // share of the cost without a plan
  int64_t lowestPeak = 0;               // a lower bound of the largest device's
  std::optional<int64_t> budgetBytes, smallestBudgetBytes;
  bool wasInterrupted = false;
};

// Errors: NotWithin; `filled` is then what each device needs as a share of its memory.
llvm::Expected<StagedPlan> findStagedPlan(const DividedStep &step, const CompileOptions &o,
                                          const Target &target,
                                          std::map<std::string, double> &filled);

} // namespace isthmus
