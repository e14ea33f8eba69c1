// The best of several choices of checkpoints, each of which is scored before it is taken.
#pragma once

#include "passes/checkpoint/free_checkpoints.h"
#include "passes/rewrite/problem.h"

namespace isthmus {

// A part of a graph's problem that is planned by itself: the whole, or what one device runs.
struct ProblemPart {
  const plan::Problem *problem = nullptr;
  llvm::ArrayRef<plan::OpIndex> whole; // by op: its number in the whole; empty: it is the whole
};

class ScoredChoices {
public:
  // `isForward`: the forwardPart of `g`, whose problem is `p`. All arguments outlive this object.
  ScoredChoices(const Graph &g, const GraphProblem &p, llvm::ArrayRef<ProblemPart> parts,
                const std::vector<bool> &isForward);

  // An internal error if the source order is not valid; the first call.
  llvm::Error scoreBaseline();
  // Scores keeping exactly `kept`, and what depends on no parameter; a part whose peak would not
  // fall keeps everything. Returns whether this is better than all before: of the largest part the
  // lower peak and, at equal peaks, the lower cost of all. The first choice is also taken if it
  // recomputes nothing; otherwise none is that saves no memory.
  llvm::Expected<bool> isBest(llvm::ArrayRef<ValueId> kept);
  // Keeps, besides the best choice, what takes no memory at the peak of its part.
  void addFree();

  bool hasBest() const { return hasBest_; }
  const plan::Evaluation &baseline() const { return baseline_; }
  // The best choice, or the source order; by part.
  std::vector<CheckpointPlan> takeBest() { return std::move(best_); }
  size_t recomputed() const { return sum_.recomputed; }
  std::optional<int64_t> leastTried() const { return leastTried_; } // bytes; none before isBest

private:
  struct Part {
    const plan::Problem *problem;
    std::optional<plan::Problem> ofLastGradient; // none: its phases are those
    plan::Evaluation baseline;
    std::vector<std::vector<bool>> keep; // by op and output: whether every choice keeps it

    const plan::Problem &get() const { return ofLastGradient ? *ofLastGradient : *problem; }
  };
  static plan::Evaluation sumOf(const std::vector<CheckpointPlan> &plans);
  bool isBetter(const plan::Evaluation &sum, int64_t tried);
  void keepIndependentOfParameters();

  const Graph &g_;
  const GraphProblem &p_;
  const std::vector<ValueId> roots_;
  std::vector<Part> parts_;
  std::vector<std::pair<uint32_t, plan::OpIndex>>
      at_;                           // by op of a node: its part, its number there
  std::vector<CheckpointPlan> best_; // by part
  plan::Evaluation baseline_, sum_;  // of all parts
  std::optional<int64_t> leastTried_;
  bool hasBest_ = false;
};

// By value: whether it depends on a parameter, or on an input that the graph differentiates by.
// Every choice keeps the values that do not.
std::vector<bool> dependsOnParameters(const Graph &g);

} // namespace isthmus
