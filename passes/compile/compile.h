// The whole road from a graph, forward or not, to one that can run: in the element type and mode
// asked for, differentiated, lowered for a target, planned, rewritten, and with a place in the
// arena for every storage.
//
// Nothing here prints, ends the process or keeps state. Errors are DiagErrors in the library's
// words; what each kind of them means to a process is its own affair.
#pragma once

#include "ir/layout.h"
#include "ir/target.h"
#include "passes/checkpoint/policy.h"
#include "passes/compile/figures.h"
#include "passes/differentiate/training_step.h"
#include "passes/lower/lowering.h"
#include "passes/plan/planner.h"
#include "passes/rewrite/problem.h"
#include <variant>

namespace isthmus {

// What the arena must not exceed.
struct Budget {
  enum Kind : uint8_t { Bytes, Share, Smallest } kind = Bytes; // Smallest: the least that is found
  int64_t bytes = 0;
  double share = 0; // of the baseline

  int64_t of(int64_t baseline) const {
    return kind == Share ? static_cast<int64_t>(share * static_cast<double>(baseline)) : bytes;
  }
};

// How a plan is chosen. AsItIs keeps the plan of a graph that was planned, and is no policy for
// another.
struct AsItIs {};
using PlanChoice = std::variant<AsItIs, PolicyOptions, Budget>;

struct CompileOptions {
  std::optional<DType> precision; // none: as the graph has it
  // A forward graph becomes a training step, as `step` says; else it stays one. `step.mode` and
  // `step.note` count in any case.
  bool differentiates = true;
  StepOptions step;

  ChannelLayout layout = ChannelLayout::Auto;
  std::optional<LoweringOptions> lowering; // in place of what suits target and layout
  bool exactOnly = false; // no pass that changes rounding, whatever the target would gain

  PlanChoice plan;
  Ways ways;                               // of a plan that is searched for
  std::optional<int64_t> memoryLimitBytes; // of parameters, inputs and arena together
  double effort = 0;                       // see plan::SearchOptions
  uint64_t seed = 0;                       // of the search
  // Called now and then while a plan is searched for; false ends the search with the best so far.
  std::function<bool(const plan::SearchProgress &)> progress;

  void note(const Remark &remark) const {
    if (step.note)
      step.note(remark);
  }
  // Whether a plan is searched for: within a budget, or within a limit on memory alone.
  bool searches() const {
    return std::holds_alternative<Budget>(plan) ||
           (std::holds_alternative<AsItIs>(plan) && memoryLimitBytes);
  }
};

struct Compiled {
  Graph graph; // runs as it is
  Layout layout;
  Figures figures;
  Graph original;                     // of `graph`: without clones, in the source order
  std::vector<ValueId> checkpoints;   // of `graph`, that a policy chose
  std::optional<int64_t> budgetBytes; // what the arena was to stay within, where that was asked
  double pricePerByte = 0;            // what one byte more would save, by the bound; microseconds
  bool wasInterrupted = false;        // the search: this is the best until then
};

// No plan is within what was asked for (kind CannotBeMet), or none was found before the search was
// interrupted (Interrupted).
class NotWithin : public llvm::ErrorInfo<NotWithin, DiagError> {
public:
  static char ID;
  NotWithin(Diag d, ErrorKind kind, Figures f)
      : ErrorInfo(std::vector{std::move(d)}, kind), figures(std::move(f)) {}

  Figures figures; // what is known: the baseline, and the least arena that was found
};

llvm::Expected<Compiled> compile(Graph g, const CompileOptions &o, const Target &target);

// Its first steps, for whoever wants no more: the graph in the element type and mode asked for, and
// differentiated.
llvm::Expected<Graph> prepared(Graph g, const CompileOptions &o);

llvm::Error budgetNotMet(const Figures &f, int64_t budgetBytes);
llvm::Error interruptedBefore(const Figures &f, int64_t budgetBytes);

} // namespace isthmus
