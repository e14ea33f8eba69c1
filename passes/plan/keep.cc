#include "passes/plan/keep.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

class Scheduler {
public:
  Scheduler(const Problem &p, const std::vector<std::vector<bool>> &keep) : p_(p), keep_(keep) {}

  Schedule run() {
    OpIndex firstBackward = 0;
    while (firstBackward < p_.ops.size() && p_.ops[firstBackward].phase != Phase::Backward)
      ++firstBackward;
    there_.assign(p_.ops.size(), true);
    for (OpIndex i = 0; i < firstBackward; ++i) {
      if (!p_.ops[i].persistent)
        out_.push_back(i);
      there_[i] = staysUntilBackward(i);
    }
    for (OpIndex i = firstBackward; i < p_.ops.size(); ++i) {
      if (p_.ops[i].persistent)
        continue;
      for (const Read &r : p_.ops[i].inputs)
        bringBack(r);
      out_.push_back(i);
    }
    return std::move(out_);
  }

private:
  // Of an op with several outputs, each is there or not; one bit serves, because a run brings back
  // all: `there_` is set if every output is kept, and a single kept output is found through keep_.
  bool staysUntilBackward(OpIndex i) const {
    const Op &op = p_.ops[i];
    if (op.persistent || !op.recomputable)
      return true;
    if (op.isView()) {
      const Read &base = op.inputs[op.viewOf];
      return available(base);
    }
    return false;
  }

  bool available(const Read &r) const {
    if (there_[r.op])
      return true;
    const Op &op = p_.ops[r.op];
    return !op.isView() && keep_[r.op][r.output];
  }

  // Depth-first over what is missing, without recursion: networks are thousands of ops deep.
  void bringBack(const Read &wanted) {
    if (available(wanted))
      return;
    stack_.push_back({wanted.op, 0});
    while (!stack_.empty()) {
      Frame &f = stack_.back();
      const Op &op = p_.ops[f.op];
      if (there_[f.op]) {
        stack_.pop_back();
      } else if (f.next < op.inputs.size()) {
        const Read &r = op.inputs[f.next++];
        if (!available(r))
          stack_.push_back({r.op, 0});
      } else {
        there_[f.op] = true;
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
  const std::vector<std::vector<bool>> &keep_;
  std::vector<bool> there_; // every output of the op has a live copy
  std::vector<Frame> stack_;
  Schedule out_;
};

} // namespace

Schedule scheduleKeeping(const Problem &p, const std::vector<std::vector<bool>> &keep) {
  return Scheduler(p, keep).run();
}

} // namespace isthmus::plan
