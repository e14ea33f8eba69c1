#include "passes/stages/checkpoint_mode.h"

#include "ir/check.h"
#include "passes/stages/early_recomputation.h"

namespace isthmus {

llvm::StringRef checkpointModeName(CheckpointMode m) {
  switch (m) {
  case CheckpointMode::Always:
    return "always";
  case CheckpointMode::ExceptLast:
    return "except_last";
  case CheckpointMode::Never:
    return "never";
  }
  ISTHMUS_UNREACHABLE("an unknown mode");
}

namespace {

class Scheduler {
public:
  Scheduler(const Graph &g, const GraphProblem &p, const PlaceProblem &place,
            std::optional<uint32_t> lastBatch)
      : g_(g), p_(p), place_(place), problem_(place.problem), lastBatch_(lastBatch) {}

  plan::Schedule run(CheckpointMode mode) {
    return recomputedBeforeWaits(g_, p_, place_, inOrder(mode), INT64_MAX);
  }

private:
  plan::Schedule inOrder(CheckpointMode mode) {
    plan::Schedule out;
    isThere_.assign(problem_.ops.size(), true);
    for (plan::OpIndex i = 0; i < problem_.ops.size(); ++i)
      isThere_[i] = !isEvicted(i, mode);
    for (plan::OpIndex i = 0; i < problem_.ops.size(); ++i) {
      const plan::Op &op = problem_.ops[i];
      if (op.isPinned || op.isAlternative)
        continue;
      if (op.phase != plan::OpPhase::Forward)
        for (const plan::Read &r : op.inputs)
          rematerialize(r.op, out);
      out.push_back(i);
    }
    return out;
  }

  // Whether the backward pass finds nothing of the op's first run.
  bool isEvicted(plan::OpIndex i, CheckpointMode mode) const {
    const plan::Op &op = problem_.ops[i];
    const plan::OpIndex whole = place_.whole[i];
    if (mode == CheckpointMode::Never || op.isPinned || op.isAlternative || !op.recomputable ||
        op.phase != plan::OpPhase::Forward || !p_.isNode(whole))
      return false;
    if (op.isView() && isThere_[op.inputs[op.viewOf].op])
      return false;
    const Node &n = g_.node(p_.nodeOf(whole));
    // What micro-batches write their parts into is of all of them.
    const bool isOfBatch = !lastBatch_ || (n.is(StandIn::Chunk) && n.op->name != "write_part");
    const bool isLast = !lastBatch_ || n.from.chunk == *lastBatch_;
    return isOfBatch && !(mode == CheckpointMode::ExceptLast && isLast);
  }

  // Depth-first, without recursion.
  void rematerialize(plan::OpIndex wanted, plan::Schedule &out) {
    if (isThere_[wanted])
      return;
    std::vector<std::pair<plan::OpIndex, size_t>> stack{{wanted, 0}};
    while (!stack.empty()) {
      auto &[op, next] = stack.back();
      const std::vector<plan::Read> &inputs = problem_.ops[op].inputs;
      if (isThere_[op]) {
        stack.pop_back();
      } else if (next < inputs.size()) {
        const plan::OpIndex read = inputs[next++].op;
        if (!isThere_[read])
          stack.push_back({read, 0});
      } else {
        isThere_[op] = true;
        out.push_back(op);
        stack.pop_back();
      }
    }
  }

  const Graph &g_;
  const GraphProblem &p_;
  const PlaceProblem &place_;
  const plan::Problem &problem_;
  const std::optional<uint32_t> lastBatch_;
  std::vector<bool> isThere_; // by op
};

} // namespace

std::optional<uint32_t> lastMicroBatch(const Graph &g) {
  std::optional<uint32_t> last;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.is(StandIn::Chunk))
      last = std::max(last.value_or(0), n.from.chunk);
  return last;
}

plan::Schedule inCheckpointMode(const Graph &g, const GraphProblem &p, const PlaceProblem &place,
                                CheckpointMode mode, std::optional<uint32_t> lastMicroBatch) {
  return Scheduler(g, p, place, lastMicroBatch).run(mode);
}

plan::Schedule checkpointed(const Graph &g, const GraphProblem &p, const PlaceProblem &place,
                            CheckpointMode mode) {
  Scheduler scheduler(g, p, place, lastMicroBatch(g));
  plan::Schedule best = scheduler.run(CheckpointMode::Never);
  int64_t least = plan::evaluate(place.problem, best).peakBytes;
  for (CheckpointMode m : {CheckpointMode::ExceptLast, CheckpointMode::Always}) {
    if (m < mode)
      break;
    plan::Schedule s = scheduler.run(m);
    const plan::Evaluation e = plan::evaluate(place.problem, s);
    ISTHMUS_CHECK(e.error.empty(), "a schedule that recomputes is not valid: " + e.error);
    if (e.peakBytes >= least)
      continue;
    least = e.peakBytes;
    best = std::move(s);
  }
  return best;
}

} // namespace isthmus
