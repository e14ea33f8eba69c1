#include "passes/checkpoint/free_checkpoints.h"

#include <algorithm>

namespace isthmus {
namespace {

class FreeCheckpoints {
public:
  FreeCheckpoints(const plan::Problem &p, CheckpointPlan &c) : p_(p), c_(c) {
    std::vector<bool> hasRun(p.ops.size(), false);
    for (plan::OpIndex op : c.schedule) {
      if (hasRun[op] && !p.ops[op].isView())
        repeated_.push_back(op);
      hasRun[op] = true;
    }
    std::sort(repeated_.begin(), repeated_.end());
    repeated_.erase(std::unique(repeated_.begin(), repeated_.end()), repeated_.end());
    // Each range is tried once, in time that is linear in the schedule.
    constexpr size_t kMostSteps = 50'000'000;
    smallest_ = std::max<size_t>(1, 2 * repeated_.size() * c.schedule.size() / kMostSteps);
  }

  void run() {
    if (!repeated_.empty())
      keep(0, repeated_.size());
  }

private:
  // Keeps as much of a range as is free, first of its later half.
  void keep(size_t begin, size_t end) {
    if (keepsWhole(begin, end) || end - begin <= smallest_)
      return;
    const size_t middle = begin + (end - begin) / 2;
    keep(middle, end);
    keep(begin, middle);
  }

  bool keepsWhole(size_t begin, size_t end) {
    std::vector<plan::Read> added;
    for (size_t i = begin; i < end; ++i) {
      std::vector<bool> &outputs = c_.isCheckpoint[repeated_[i]];
      for (uint32_t o = 0; o < outputs.size(); ++o)
        if (!outputs[o]) {
          added.push_back({repeated_[i], o});
          outputs[o] = true;
        }
    }
    plan::Schedule s = plan::checkpointSchedule(p_, c_.isCheckpoint);
    plan::Evaluation e = plan::evaluate(p_, s);
    if (e.error.empty() && e.peakBytes <= c_.planned.peakBytes && e.cost <= c_.planned.cost) {
      c_.schedule = std::move(s);
      c_.planned = std::move(e);
      return true;
    }
    for (const plan::Read &r : added)
      c_.isCheckpoint[r.op][r.output] = false;
    return false;
  }

  const plan::Problem &p_;
  CheckpointPlan &c_;
  std::vector<plan::OpIndex> repeated_; // in source order
  size_t smallest_ = 1;                 // range that is not halved
};

} // namespace

void addFreeCheckpoints(const plan::Problem &p, CheckpointPlan &c) { FreeCheckpoints(p, c).run(); }

} // namespace isthmus
