#include "passes/plan/storages/storage_graph.h"

#include "passes/plan/overwrites.h"

#include <algorithm>

namespace isthmus::plan {

StorageGraph::StorageGraph(const Problem &p, bool withAlternatives)
    : Storages(p, Views::NeedAll), order(p.order), numOriginal(uint32_t(tasks.size())), p_(p) {
  for (TaskId t : tasks.ids())
    if (tasks[t].isBackward) {
      firstBackward = t;
      break;
    }
  if (withAlternatives)
    addAlternatives();
  findOverwrites();
}

void StorageGraph::findOverwrites() {
  const std::vector<std::vector<OpIndex>> overwriters = overwritersOfReads(p_);
  if (overwriters.empty())
    return;
  std::vector<TaskId> taskOf(p_.ops.size());
  for (TaskId t : tasks.ids())
    taskOf[tasks[t].source] = t;
  overwriters_.resize(tasks.size());
  readers_.resize(tasks.size());
  for (TaskId t : tasks.ids())
    for (OpIndex by : overwriters[tasks[t].source])
      if (taskOf[by]) { // if the overwriter is needed
        overwriters_[t].push_back(taskOf[by]);
        readers_[taskOf[by]].push_back(t);
      }
}

void StorageGraph::addAlternatives() {
  std::vector<TaskId> offloads(p_.ops.size()); // by their wait
  for (OpIndex i = 0; i < p_.ops.size(); ++i) {
    const Op &op = p_.ops[i];
    if (op.of == Op::kNone || !firstOf_[op.of])
      continue;
    if (op.transfer != Op::Transfer::WaitPrefetch)
      addForm(i);
    else if (op.recomputable)
      addPrefetch(i, offloads);
  }
  std::stable_sort(forms_.begin(), forms_.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  alternatives_.resize(storages.size());
  for (TaskId t : IdRange<TaskId>{TaskId(numOriginal), tasks.nextId()})
    for (StorageId s : tasks[t].made())
      if (storages[s].maker != t && tasks[t].mayRepeat)
        alternatives_[s].push_back(t);
  findSpared();
}

void StorageGraph::findSpared() {
  isSpared_.resize(storages.size());
  for (const auto &[own, form] : forms_) {
    const Reads &reads = tasks[form].reads;
    for (StorageId s : tasks[own].reads)
      isSpared_[s] |= std::find(reads.begin(), reads.end(), s) == reads.end();
  }
}

bool StorageGraph::isUsable(const std::vector<Read> &inputs) const {
  return std::all_of(inputs.begin(), inputs.end(), [&](const Read &r) {
    return p_.ops[r.op].isPinned || (needed_[r.op] && !p_.ops[r.op].isAlternative);
  });
}

// Adds the helper that makes an alternative's operand: an op that is an alternative to no op and
// reads original ops and other helpers. False if the input is neither a helper nor usable directly.
// (The depth is limited because helpers in a user's problem may form a cycle.)
bool StorageGraph::addHelper(const Read &input, int depth) {
  constexpr int kDeepest = 32;
  const Op &op = p_.ops[input.op];
  const bool isHelper =
      op.isAlternative && op.of == Op::kNone && op.transfer == Op::Transfer::None && !op.isView();
  if (!isHelper || firstOf_[input.op])
    return isHelper || isUsable({input});
  if (!op.recomputable || depth > kDeepest)
    return false;
  for (const Read &r : op.inputs)
    if (!addHelper(r, depth + 1))
      return false;
  Task task = taskOf(input.op);
  task.firstMade = firstOf_[input.op] = storages.nextId();
  task.numMade = uint32_t(op.outputBytes.size());
  for (int64_t bytes : op.outputBytes)
    storages.push_back({p_.rounded(bytes), tasks.nextId()});
  task.donations = donationsOf(p_, op, task.firstMade);
  tasks.push_back(std::move(task));
  return true;
}

// The task of an op, without its results.
Storages::Task StorageGraph::taskOf(OpIndex i) const {
  const Op &op = p_.ops[i];
  Task task;
  task.source = i;
  task.cost = op.cost;
  task.workspace = p_.rounded(op.workspace);
  task.mayRepeat = op.recomputable;
  auto isBackward = [](const Op &o) { return o.phase != OpPhase::Forward; };
  task.isBackward = isBackward(op) || std::any_of(op.inputs.begin(), op.inputs.end(), [&](Read r) {
                      return isBackward(p_.ops[r.op]); // even if it is a view of a forward result
                    });
  task.reads = readsOf(p_, op);
  return task;
}

bool StorageGraph::setMade(const Op &from, Task &task) const {
  const bool isAll = from.ofOutput == Op::kAllOutputs;
  task.firstMade = firstOf_[from.of] + (isAll ? 0 : from.ofOutput);
  const Task &own = tasks[storages[firstOf_[from.of]].maker];
  task.numMade = isAll ? own.numMade : 1;
  for (StorageId s : own.made())
    if (storages[s].hasOneInstance) // views run again after a new instance of any result
      return false;
  return true;
}

void StorageGraph::addForm(OpIndex i) {
  const Op &op = p_.ops[i];
  Task made;
  if (!setMade(op, made))
    return;
  for (const Read &r : op.inputs)
    if (!addHelper(r))
      return;
  Task task = taskOf(i);
  task.firstMade = made.firstMade;
  task.numMade = made.numMade;
  task.donations = donationsOf(p_, op, task.firstMade);
  const TaskId own = storages[task.firstMade].maker;
  const bool isInverse = readsLaterOps(op, op.of);
  hasInverses_ |= isInverse;
  if (task.numMade == tasks[own].numMade && !isInverse)
    forms_.push_back({own, tasks.nextId()});
  tasks.push_back(std::move(task));
}

bool StorageGraph::readsLaterOps(const Op &op, OpIndex than) const {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](const Read &r) {
    return p_.ops[r.op].isAlternative ? readsLaterOps(p_.ops[r.op], than) : r.op > than;
  });
}

// Also adds the offload, unless another prefetch has added it.
void StorageGraph::addPrefetch(OpIndex wait, std::vector<TaskId> &offloads) {
  const Op &last = p_.ops[wait];
  const OpIndex start = last.inputs[0].op, hostWait = p_.ops[start].inputs[0].op,
                hostStart = p_.ops[hostWait].inputs[0].op;
  const Op &from = p_.ops[start], &onHost = p_.ops[hostWait], &first = p_.ops[hostStart];
  Task prefetch;
  if (last.inputs.size() != 1 || last.outputBytes.size() != 1 || !from.recomputable ||
      !setMade(last, prefetch))
    return;
  if (!offloads[hostWait]) {
    Task offload;
    offload.reads = readsOf(p_, first);
    offload.isBackward = first.phase != OpPhase::Forward || onHost.phase != OpPhase::Forward;
    if (onHost.inputs.size() != 1 || !onHost.recomputable || !first.recomputable ||
        !isUsable(first.inputs) || offload.reads.empty() ||
        (offload.isBackward && order == Order::Phases))
      return;
    offload.source = hostWait;
    offload.otherEnd = hostStart;
    offload.transfer = Task::Transfer::Offload;
    offload.transferTime = first.transferTime;
    offload.firstMade = storages.nextId();
    offload.numMade = 1;
    offloads[hostWait] = tasks.nextId();
    storages.push_back({0, tasks.nextId()});
    tasks.push_back(std::move(offload));
  }
  prefetch.source = start;
  prefetch.otherEnd = wait;
  prefetch.transfer = Task::Transfer::Prefetch;
  prefetch.transferTime = from.transferTime;
  prefetch.isBackward = from.phase != OpPhase::Forward || last.phase != OpPhase::Forward;
  prefetch.reads.push_back(tasks[offloads[hostWait]].firstMade);
  tasks.push_back(std::move(prefetch));
  hasTransfers = true;
}

} // namespace isthmus::plan
