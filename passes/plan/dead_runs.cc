#include "passes/plan/dead_runs.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// Finds the steps that made each step's operands, and the steps that must stay even if nothing
// reads them.
class DeadRuns {
public:
  DeadRuns(const Problem &p, const Schedule &s)
      : p_(p), s_(s), isNeeded_(s.size(), 0), newest_(p.ops.size()) {
    for (size_t i = 0; i < p.ops.size(); ++i)
      newest_[i].assign(std::max<size_t>(1, p.ops[i].outputBytes.size()), kNone);
  }

  Schedule removed() {
    bind();
    Schedule out;
    for (size_t step = s_.size(); step-- > 0;) {
      if (!isNeeded_[step])
        continue;
      out.push_back(s_[step]);
      for (size_t r = firstRead_[step]; r < firstRead_[step + 1]; ++r)
        if (reads_[r] != kNone)
          isNeeded_[reads_[r]] = 1;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

private:
  static constexpr size_t kNone = ~size_t(0);

  void bind() {
    std::vector<size_t> last(p_.ops.size(), kNone);
    std::vector<char> ran(p_.ops.size(), 0);
    for (size_t step = 0; step < s_.size(); ++step)
      last[s_[step]] = step;
    for (size_t step = 0; step < s_.size(); ++step) {
      const OpIndex id = s_[step];
      const Op &op = p_.ops[id];
      firstRead_.push_back(reads_.size());
      for (const Read &r : op.inputs)
        reads_.push_back(p_.ops[r.op].isPinned ? kNone : newest_[r.op][r.output]);
      isNeeded_[step] = op.isAlternative ? op.transfer != Op::Transfer::None
                                         : last[id] == step || (!ran[id] && isFirstRunBound(op));
      ran[id] = 1;
      std::fill(newest_[id].begin(), newest_[id].end(), step);
      if (op.of != Op::kNone && op.transfer != Op::Transfer::StartPrefetch)
        bindTo(op, step);
    }
    firstRead_.push_back(reads_.size());
    for (const Read &r : p_.outputs)
      if (size_t step = newest_[r.op][r.output]; !p_.ops[r.op].isPinned && step != kNone)
        isNeeded_[step] = 1;
  }

  // Whether the problem's order constrains the op's first run.
  bool isFirstRunBound(const Op &op) const {
    return p_.order == Order::Fixed || (p_.order == Order::Phases && op.phase == OpPhase::Forward);
  }

  // Another form of an op, or a prefetch, makes new instances of the op's outputs.
  void bindTo(const Op &op, size_t step) {
    std::vector<size_t> &theirs = newest_[op.of];
    if (op.ofOutput == Op::kAllOutputs)
      std::fill(theirs.begin(), theirs.end(), step);
    else
      theirs[op.ofOutput] = step;
  }

  const Problem &p_;
  const Schedule &s_;
  std::vector<char> isNeeded_;
  std::vector<std::vector<size_t>> newest_; // by op and output: the step that made it
  std::vector<size_t> firstRead_, reads_;   // reads_[firstRead_[step]...]: the steps that it reads
};

} // namespace

Schedule withoutDeadRuns(const Problem &p, const Schedule &s) { return DeadRuns(p, s).removed(); }

} // namespace isthmus::plan
