// Compiles a graph, forward or differentiated, to one that can run: converts it to the requested
// element type and mode, differentiates, lowers for a target, plans, rewrites, and gives every
// storage an offset in the arena.
//
// Nothing here prints, ends the process or keeps state. Errors are DiagErrors; the caller decides
// what each kind means for its process.
#pragma once

#include "ir/layout.h"
#include "ir/target.h"
#include "passes/checkpoint/policy.h"
#include "passes/chunk/request.h"
#include "passes/compile/budget.h"
#include "passes/compile/compile_step.h"
#include "passes/compile/figures.h"
#include "passes/differentiate/training_step.h"
#include "passes/lower/lowering.h"
#include "passes/plan/planner.h"
#include "passes/rewrite/problem.h"
#include "passes/stages/checkpoint_mode.h"
#include "passes/stages/order.h"
#include "passes/stages/programs.h"
#include <variant>

namespace isthmus {

// How a plan is chosen. AsItIs keeps the plan of a graph that was planned; any other graph gets no
// policy.
struct AsItIs {};
using PlanChoice = std::variant<AsItIs, PolicyOptions, Budget>;

// Runs the first step of a graph that is ready to run, and returns the values named, which have one
// element each.
using FirstStep = std::function<llvm::Expected<std::vector<double>>(
    const Graph &g, llvm::ArrayRef<ValueId> values)>;

// A step over several devices (docs/stages.md).
struct StageOptions {
  uint32_t stages = 0; // 0: one for each device that the graph's nodes name
  // Its devices run the stages; empty: as the target has them, cpu:0, cpu:1, ... Shares and limits
  // follow from it.
  Machine machine;
  std::vector<double> shares;               // of the cost, by stage (CutOptions)
  std::vector<std::string> ends;            // values behind which stages end, in place of shares
  std::optional<StageOrder> order;          // none: the fastest, by the simulator
  std::optional<CheckpointMode> checkpoint; // none: what the plan says
};

struct CompileOptions {
  std::optional<DType> precision; // none: the graph's own
  // Whether a forward graph becomes a training step, as `step` says. `step.mode` and `step.note`
  // apply in either case.
  bool differentiates = true;
  StepOptions step;

  ChannelLayout layout = ChannelLayout::Auto;
  std::optional<LoweringOptions> lowering; // replaces the choice by target and layout
  bool exactOnly = false;                  // run no pass that changes rounding

  PlanChoice plan;
  Ways ways;                               // alternatives for a plan that is searched for
  std::vector<ChunkRequest> chunks;        // regions to run in chunks, whatever the plan
  int64_t microBatches = 0;                // of the whole step, likewise; 0: none
  std::vector<BatchRequest> batch;         // which axes of the inputs the examples are on
  std::optional<StageOptions> stages;      // none: on the devices that the graph's nodes name
  std::optional<int64_t> memoryLimitBytes; // of parameters, inputs and arena together
  // The most that a plan may add, as a share of the cost of the step; none: the search for the
  // smallest arena adds no more than the cost, and other plans may cost anything.
  std::optional<double> mostAdded;
  bool findsKnee = false; // of the price curve, even if a budget is met
  // A step over several devices whose graph would have more nodes is only simulated, unless a plan
  // is searched for: the result is figures alone.
  int64_t mostNodes = INT64_MAX;
  double effort = 0; // see plan::SearchOptions
  uint64_t seed = 0; // for the search
  // Measures the errors of inverses; null: they are not measured. A value whose inverse has an
  // error above `mostInverseError`, as a share of the value's largest element, is not inverted.
  FirstStep firstStep;
  double mostInverseError = 1e-3;
  // AsItIs: the graph will run, so its arena must stay within the budget on its record (NotWithin).
  // Otherwise a larger one is only noted.
  bool keepsBudget = false;
  AfterStep after; // may be empty
  // Called regularly during the search; false ends the search with the best plan so far.
  std::function<bool(const plan::SearchProgress &)> progress;

  void note(const Remark &remark) const {
    if (step.note)
      step.note(remark);
  }
  void tell(CompileStep step, const Graph &g) const {
    if (after)
      after(step, g);
  }
  // Whether a plan is searched for: the choice is a budget, or AsItIs with a memory limit.
  bool searches() const {
    return std::holds_alternative<Budget>(plan) ||
           (std::holds_alternative<AsItIs>(plan) && memoryLimitBytes);
  }
};

// What one device runs.
struct CompiledProgram : Program {
  CompiledProgram(Program p, Layout layout) : Program(std::move(p)), layout(std::move(layout)) {}
  Layout layout;
};

struct Compiled {
  Graph graph; // ready to run; empty if the step was only simulated
  // Of the graph on one device. With several, `programs` run, each in an arena of its own, and this
  // has the largest arena and peak of theirs alone.
  Layout layout;
  std::vector<CompiledProgram> programs; // empty if one device runs the graph
  Figures figures;
  Graph original;                   // the original of `graph`: without clones, in the source order
  std::vector<ValueId> checkpoints; // values of `graph` that a policy chose
  std::optional<int64_t> budgetBytes; // budget of the arena, if one was requested
  double pricePerByte = 0; // microseconds that one more byte of budget saves, by the lower bound
  bool wasInterrupted = false; // the search was interrupted: this is the best plan so far
};

// No plan fits the budget or memory limit (kind CannotBeMet), or none was found before the search
// was interrupted (Interrupted).
class NotWithin : public llvm::ErrorInfo<NotWithin, DiagError> {
public:
  static char ID;
  NotWithin(Diag d, ErrorKind kind, Figures f)
      : ErrorInfo(std::vector{std::move(d)}, kind), figures(std::move(f)) {}

  Figures figures; // the known figures: the baseline, and the smallest arena that was found
};

llvm::Expected<Compiled> compile(Graph g, const CompileOptions &o, const Target &target);

// The first steps of compile(): the graph in the requested element type and mode, differentiated.
llvm::Expected<Graph> prepared(Graph g, const CompileOptions &o);

llvm::Error budgetNotMet(const Figures &f, int64_t budgetBytes);
llvm::Error interruptedBefore(const Figures &f, int64_t budgetBytes);

} // namespace isthmus
