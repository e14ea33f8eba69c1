#include "passes/plan/storages/storages.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {

std::vector<char> neededOps(const Problem &p) {
  std::vector<char> needed(p.ops.size(), 0);
  std::vector<OpIndex> stack;
  auto need = [&](const Read &r) {
    if (!needed[r.op] && !p.ops[r.op].isPinned) {
      needed[r.op] = 1;
      stack.push_back(r.op);
    }
  };
  for (const Read &r : p.outputs)
    need(r);
  for (OpIndex op : p.forwardOutputs)
    if (p.order == Order::Phases)
      need({op, 0});
  while (!stack.empty()) {
    OpIndex op = stack.back();
    stack.pop_back();
    for (const Read &r : p.ops[op].inputs)
      need(r);
  }
  return needed;
}

Storages::Reads Storages::readsOf(const Problem &p, const Op &op) const {
  Reads reads;
  metAt_.resize(storages.size(), 0);
  ++numCalls_;
  auto add = [&](StorageId s) {
    if (s && std::exchange(metAt_[s], numCalls_) != numCalls_)
      reads.push_back(s);
  };
  for (const Read &r : op.inputs) {
    add(storageOf(p, r));
    for (StorageId s : touches_[r.op])
      add(s);
  }
  return reads;
}

Storages::Task::Donations Storages::donationsOf(const Problem &p, const Op &op,
                                                StorageId firstMade) const {
  Task::Donations donations;
  for (const Op::Donation &d : op.donations) {
    StorageId read = storageOf(p, op.inputs[d.input]), made = firstMade + d.output;
    if (read && storages[read].bytes >= storages[made].bytes)
      donations.push_back({made, read});
  }
  return donations;
}

Storages::Storages(const Problem &p, Views views)
    : needed_(neededOps(p)), firstOf_(p.ops.size()), touches_(p.ops.size()) {
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const Op &op = p.ops[i];
    if (op.isPinned || !needed_[i])
      continue;
    Reads reads = readsOf(p, op);
    if (op.isView()) {
      firstOf_[i] = storageOf(p, op.inputs[op.viewOf]);
      if (views == Views::NeedAll) {
        touches_[i] = std::move(reads);
        for (StorageId s : touches_[i])
          if (!op.recomputable) { // a new instance would need the view again
            tasks[storages[s].maker].mayRepeat = false;
            storages[s].hasOneInstance = true;
          }
      }
      continue;
    }
    Task task;
    task.source = i;
    task.cost = op.cost;
    task.workspace = p.rounded(op.workspace);
    task.mayRepeat = op.recomputable;
    task.isBackward = op.phase != OpPhase::Forward;
    task.reads = std::move(reads);
    task.firstMade = firstOf_[i] = storages.nextId();
    task.numMade = static_cast<uint32_t>(std::max<size_t>(1, op.outputBytes.size()));
    storages.resize(storages.size() + task.numMade, {0, tasks.nextId()});
    for (size_t k = 0; k < op.outputBytes.size(); ++k)
      storages[task.firstMade + k].bytes = p.rounded(op.outputBytes[k]);
    task.donations = donationsOf(p, op, task.firstMade);
    tasks.push_back(std::move(task));
  }
  for (const Read &r : p.outputs)
    if (StorageId s = storageOf(p, r))
      storages[s].lives = true;
}

} // namespace isthmus::plan
