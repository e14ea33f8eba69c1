#include "passes/plan/search/emit_schedule.h"

#include "passes/plan/search/editable_schedule.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// Emits ops and, before each op, the views that it reads if their base has a newer instance.
class Emitter {
public:
  explicit Emitter(const StorageGraph &g)
      : p_(g.problem()), needed_(g.neededOps()), instance_(p_.ops.size(), 0) {
    if (p_.order != Order::Phases)
      return;
    auto wait = [&](OpIndex op) {
      if (p_.ops[op].isView() && p_.ops[op].phase == OpPhase::Forward)
        waiting_.push_back(op);
    };
    for (OpIndex op : p_.forwardOutputs)
      wait(op);
    for (const Read &r : p_.outputs)
      wait(r.op);
  }

  void run(OpIndex op) {
    if (!p_.ops[op].isAlternative)
      viewsBefore(op);
    forwardOutputs();
    for (const Read &r : p_.ops[op].inputs)
      refresh(r.op);
    out_.push_back(op);
    renew(op);
  }

  // Emits the start of a transfer, whose inputs are live, or a wait.
  void runTransferEnd(OpIndex op) {
    for (const Read &r : p_.ops[op].inputs)
      refresh(r.op);
    out_.push_back(op);
    if (p_.ops[op].of != Op::kNone) {
      renew(p_.ops[op].of);
      forwardOutputs();
    }
  }

  // Emits the views that come after all other ops.
  Schedule finish() {
    viewsBefore(static_cast<OpIndex>(p_.ops.size()));
    forwardOutputs();
    for (const Read &r : p_.outputs)
      refresh(r.op);
    return std::move(out_);
  }

private:
  void renew(OpIndex op) {
    instance_[op] = ++numInstances_;
    if (p_.ops[op].of != Op::kNone && !p_.ops[op].startsTransfer())
      instance_[p_.ops[op].of] = numInstances_;
  }

  // In a fixed order, views also run in their places.
  void viewsBefore(OpIndex op) {
    for (; p_.order == Order::Fixed && nextView_ < op; ++nextView_)
      refresh(nextView_);
  }

  // In an order by phases, views that the forward part has to compute run as soon as they can.
  void forwardOutputs() {
    auto isDone = [&](OpIndex view) {
      bool can = canRun(view);
      if (can)
        refresh(view);
      return can;
    };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), isDone), waiting_.end());
  }

  bool canRun(OpIndex i) const {
    const Op &op = p_.ops[i];
    return op.isPinned || instance_[i] > 0 ||
           (op.isView() && std::all_of(op.inputs.begin(), op.inputs.end(),
                                       [&](const Read &r) { return canRun(r.op); }));
  }

  // A view is as new as its base's instance.
  void refresh(OpIndex op) {
    if (!p_.ops[op].isView() || !needed_[op])
      return;
    chain_.clear();
    while (p_.ops[op].isView()) {
      chain_.push_back(op);
      op = p_.ops[op].inputs[p_.ops[op].viewOf].op;
    }
    uint64_t base = p_.ops[op].isPinned ? kPinned : instance_[op];
    while (!chain_.empty()) {
      OpIndex view = chain_.back();
      chain_.pop_back();
      if (instance_[view] == base)
        continue;
      std::vector<OpIndex> rest = std::move(chain_);
      for (const Read &r : p_.ops[view].inputs)
        refresh(r.op);
      chain_ = std::move(rest);
      instance_[view] = base;
      out_.push_back(view);
    }
  }

  static constexpr uint64_t kPinned = 1; // stands for all instances of pinned storages

  const Problem &p_;
  const std::vector<char> &needed_;
  OpIndex nextView_ = 0;
  std::vector<OpIndex> waiting_;   // forward outputs that are views and have not run
  std::vector<uint64_t> instance_; // by op: a number for each run; by view: that of its base
  uint64_t numInstances_ = kPinned;
  std::vector<OpIndex> chain_;
  Schedule out_;
};

} // namespace

Schedule emitSchedule(const StorageGraph &g, const std::vector<TaskId> &tasks) {
  Emitter emitter(g);
  if (!g.hasTransfers) {
    for (TaskId t : tasks)
      emitter.run(g.tasks[t].source);
    return emitter.finish();
  }
  EditableSchedule s(g);
  s.assign(tasks);
  std::vector<TransferEvent> events;
  findTransferEvents(s, events);
  auto next = events.begin();
  auto runOtherEnds = [&](StepId r, bool isAfter) {
    for (; next != events.end() && next->position == s.position(r) &&
           (next->kind == TransferEvent::StartOffloadAfter) == isAfter &&
           next->kind != TransferEvent::OwnEnd;
         ++next)
      emitter.runTransferEnd(s.task(next->step).otherEnd);
  };
  for (StepId r : s.profile().steps()) {
    runOtherEnds(r, /*isAfter=*/false);
    const StorageGraph::Task &t = s.task(r);
    if (r != s.end() && t.transfer == StorageGraph::Task::Transfer::None) {
      emitter.run(t.source);
    } else if (next != events.end() && next->kind == TransferEvent::OwnEnd && next->step == r) {
      emitter.runTransferEnd(t.source);
      ++next;
    }
    runOtherEnds(r, /*isAfter=*/true);
  }
  return emitter.finish();
}

} // namespace isthmus::plan
