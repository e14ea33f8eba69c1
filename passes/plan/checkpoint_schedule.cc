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
    findEvictions();
    isLive_.assign(p_.ops.size(), true);
    for (OpIndex i = 0; i < p_.ops.size(); ++i) {
      if (p_.ops[i].isAlternative)
        continue;
      if (!p_.ops[i].isPinned) {
        for (const Read &r : p_.ops[i].inputs)
          rematerialize(r);
        isLive_[i] = true;
        out_.push_back(i);
      }
      for (OpIndex evicted : evictedAfter_[i]) // bases come before their views
        isLive_[evicted] = p_.ops[evicted].isView() && isAvailable(baseOf(evicted));
    }
    return std::move(out_);
  }

private:
  const Read &baseOf(OpIndex view) const { return p_.ops[view].inputs[p_.ops[view].viewOf]; }

  // Where the chunks of a step run one after another, the forward part of a later chunk follows the
  // backward part of an earlier one. So each value is evicted by itself, after its last use in the
  // forward part, and not all of them where the backward part begins.
  void findEvictions() {
    const OpIndex n = OpIndex(p_.ops.size());
    std::vector<OpIndex> root(n); // the op that makes the storage, for views
    // By root: the last reader that keeps it live, and its first reader in the backward part.
    std::vector<OpIndex> lastKeeper(n), firstBackwardReader(n, n);
    bool isBeforeBackward = true;
    for (OpIndex i = 0; i < n; ++i) {
      const Op &op = p_.ops[i];
      lastKeeper[i] = root[i] = i;
      if (op.isAlternative)
        continue;
      const bool isBackward = !op.isPinned && op.phase == OpPhase::Backward;
      isBeforeBackward &= !isBackward;
      if (op.isView())
        root[i] = root[baseOf(i).op];
      for (const Read &r : op.inputs)
        if (OpIndex read = root[r.op]; isBackward)
          firstBackwardReader[read] = std::min(firstBackwardReader[read], i);
        else if (isBeforeBackward || op.phase == OpPhase::Forward)
          lastKeeper[read] = i;
    }
    evictedAfter_.resize(n);
    for (OpIndex i = 0; i < n; ++i) {
      const Op &op = p_.ops[i];
      if (op.isPinned || op.isAlternative || op.phase == OpPhase::Backward || !op.recomputable)
        continue;
      // A value that chunks share, and that the backward part of an earlier one reads, is live
      // between them in any case.
      if (const OpIndex r = root[i]; firstBackwardReader[r] > lastKeeper[r])
        evictedAfter_[lastKeeper[r]].push_back(i);
    }
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
  std::vector<std::vector<OpIndex>> evictedAfter_; // by op
  // Each of an op's outputs may be live or not. One bit serves, because a step makes all of them:
  // it is set if every output is live, and a single checkpoint among them is found through
  // `isCheckpoint_`.
  std::vector<bool> isLive_;
  std::vector<Frame> stack_;
  Schedule out_;
};

} // namespace

Schedule checkpointSchedule(const Problem &p, const std::vector<std::vector<bool>> &isCheckpoint) {
  return withLateOverwrites(p, Scheduler(p, isCheckpoint).run());
}

} // namespace isthmus::plan
