#include "passes/plan/storage_graph.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// Runs ops, and just before each the views that it reads, where their base has a newer copy.
class Emitter {
public:
  explicit Emitter(const Problem &p) : p_(p), needed_(neededOps(p)), copy_(p.ops.size(), 0) {
    if (p.order != Order::Phases)
      return;
    auto wait = [&](OpIndex op) {
      if (p_.ops[op].isView() && p_.ops[op].phase == Phase::Forward)
        waiting_.push_back(op);
    };
    for (OpIndex op : p.forwardOutputs)
      wait(op);
    for (const Read &r : p.outputs)
      wait(r.op);
  }

  void run(OpIndex op) {
    viewsBefore(op);
    forwardOutputs();
    for (const Read &r : p_.ops[op].inputs)
      refresh(r.op);
    copy_[op] = ++numCopies_;
    out_.push_back(op);
  }

  // Where the order is fixed, views too run in their places.
  void viewsBefore(OpIndex op) {
    for (; p_.order == Order::Fixed && nextView_ < op; ++nextView_)
      refresh(nextView_);
  }

  // In an order by phases, views that the forward part has to compute run as soon as they can.
  void forwardOutputs() {
    auto isDone = [&](OpIndex view) {
      bool can = isThere(view);
      if (can)
        refresh(view);
      return can;
    };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), isDone), waiting_.end());
  }

  bool isThere(OpIndex i) const {
    const Op &op = p_.ops[i];
    return op.persistent || copy_[i] > 0 ||
           (op.isView() && std::all_of(op.inputs.begin(), op.inputs.end(),
                                       [&](const Read &r) { return isThere(r.op); }));
  }

  // A view is as new as its base's copy.
  void refresh(OpIndex op) {
    if (!p_.ops[op].isView() || !needed_[op])
      return;
    chain_.clear();
    while (p_.ops[op].isView()) {
      chain_.push_back(op);
      op = p_.ops[op].inputs[p_.ops[op].viewOf].op;
    }
    uint64_t base = p_.ops[op].persistent ? 1 : copy_[op];
    while (!chain_.empty()) {
      OpIndex view = chain_.back();
      chain_.pop_back();
      if (copy_[view] == base)
        continue;
      std::vector<OpIndex> rest = std::move(chain_);
      for (const Read &r : p_.ops[view].inputs)
        refresh(r.op);
      chain_ = std::move(rest);
      copy_[view] = base;
      out_.push_back(view);
    }
  }

  Schedule take() { return std::move(out_); }

private:
  const Problem &p_;
  std::vector<char> needed_;
  OpIndex nextView_ = 0;
  std::vector<OpIndex> waiting_; // forward outputs that are views and have not run
  std::vector<uint64_t> copy_;   // of ops, a number for each run; of views, that of their base
  uint64_t numCopies_ = 1;       // 1 stands for what is always there
  std::vector<OpIndex> chain_;
  Schedule out_;
};

} // namespace

Schedule StorageGraph::scheduleOf(const std::vector<uint32_t> &runs) const {
  Emitter emitter(p_);
  for (uint32_t op : runs)
    emitter.run(ops[op].source);
  emitter.viewsBefore(static_cast<OpIndex>(p_.ops.size()));
  emitter.forwardOutputs();
  for (const Read &r : p_.outputs)
    emitter.refresh(r.op);
  return emitter.take();
}

} // namespace isthmus::plan
