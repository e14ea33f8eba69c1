#include "passes/plan/checkpoint_schedule.h"

#include "passes/plan/overwrites.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

class Scheduler {
public:
  Scheduler(const Problem &p, const std::vector<std::vector<bool>> &isCheckpoint)
      : p_(p), isCheckpoint_(isCheckpoint) {}

  Schedule run() {
    // Inputs of the backward part, such as the gradient that comes from outside, may stand
    // anywhere.
    OpIndex firstBackward = 0;
    while (firstBackward < p_.ops.size() &&
           (p_.ops[firstBackward].isPinned || p_.ops[firstBackward].phase != OpPhase::Backward))
      ++firstBackward;
    isLive_.assign(p_.ops.size(), true);
    for (OpIndex i = 0; i < firstBackward; ++i) {
      if (!p_.ops[i].isPinned)
        out_.push_back(i);
      isLive_[i] = staysUntilBackward(i);
    }
    for (OpIndex i = firstBackward; i < p_.ops.size(); ++i) {
      if (p_.ops[i].isPinned)
        continue;
      for (const Read &r : p_.ops[i].inputs)
        rematerialize(r);
      out_.push_back(i);
    }
    return std::move(out_);
  }

private:
  // Each of an op's outputs may be live or not. One bit serves, because a step makes all of them:
  // `isLive_` is set if every output is live, and a single checkpoint among them is found through
  // `isCheckpoint_`.
  bool staysUntilBackward(OpIndex i) const {
    const Op &op = p_.ops[i];
    if (op.isPinned || !op.recomputable)
      return true;
    if (op.isView()) {
      const Read &base = op.inputs[op.viewOf];
      return isAvailable(base);
    }
    return false;
  }

  bool isAvailable(const Read &r) const {
    if (isLive_[r.op])
      return true;
    const Op &op = p_.ops[r.op];
    return !op.isView() && isCheckpoint_[r.op][r.output];
  }

  // Depth-first over values that are not live, without recursion: networks are thousands of ops
  // deep.
  void rematerialize(const Read &wanted) {
    if (isAvailable(wanted))
      return;
    stack_.push_back({wanted.op, 0});
    while (!stack_.empty()) {
      Frame &f = stack_.back();
      const Op &op = p_.ops[f.op];
      if (isLive_[f.op]) {
        stack_.pop_back();
      } else if (f.next < op.inputs.size()) {
        const Read &r = op.inputs[f.next++];
        if (!isAvailable(r))
          stack_.push_back({r.op, 0});
      } else {
        isLive_[f.op] = true;
        out_.push_back(f.op);
        stack_.pop_back();
      }
    }
  }

  struct Frame {
    OpIndex op;
    size_t next;
  };

  const Problem &p_;
  const std::vector<std::vector<bool>> &isCheckpoint_;
  std::vector<bool> isLive_; // every output of the op has a live instance
  std::vector<Frame> stack_;
  Schedule out_;
};

} // namespace

Schedule checkpointSchedule(const Problem &p, const std::vector<std::vector<bool>> &isCheckpoint) {
  return withLateOverwrites(p, Scheduler(p, isCheckpoint).run());
}

} // namespace isthmus::plan
